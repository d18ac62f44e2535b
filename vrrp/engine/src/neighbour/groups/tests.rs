use std::process::Command;

use windlass_kernel::clock;
use windlass_kernel::netlink::RouteSocket;

use super::*;
use crate::lab::hosts::{add_interface, in_namespace};

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0x50);

/// An interface, by its index.
struct Scene(u32);

impl Scene {
    fn new() -> Self {
        Self(add_interface(&mut RouteSocket::open().unwrap(), "d0"))
    }

    fn is_joined(&self) -> bool {
        Memberships::read().contains(self.0, GROUP.into())
    }

    fn joined(&self) -> Groups {
        let mut groups = Groups::new(self.0);
        groups.want([GROUP].into());
        assert!(!groups.step(clock::now()), "one group is joined in one step");
        assert!(self.is_joined());
        groups
    }

    /// The kernel forgets all memberships, and the sockets do not know.
    fn forget(&self) {
        for mtu in ["1200", "1500"] {
            assert!(Command::new("ip").args(["link", "set", "d0", "mtu", mtu]).status().unwrap().success());
        }
        assert!(!self.is_joined());
    }
}

#[test]
fn the_end_of_old_sockets_that_a_child_process_had_ends_no_new_membership() {
    in_namespace(|| {
        let scene = Scene::new();
        let old = scene.joined();
        // Forked, and not yet executing anything.
        let child = old.sockets[0].0.try_clone().unwrap();
        scene.forget();
        drop(old);
        let new = scene.joined();
        drop(child);
        assert!(scene.is_joined());
        drop(new);
        assert!(!scene.is_joined());
    });
}

#[test]
fn a_membership_that_was_lost_unseen_is_noticed_a_little_later() {
    in_namespace(|| {
        let scene = Scene::new();
        let mut groups = scene.joined();
        scene.forget();
        let due = groups.deadline().expect("a check");
        groups.step(due);
        assert!(scene.is_joined());
        // Once more, and no longer when the kernel agrees.
        let due = groups.deadline().expect("a check of what was joined again");
        groups.step(due);
        assert_eq!(groups.deadline(), None);
        assert!(scene.is_joined());
    });
}

#[test]
fn where_the_kernel_does_not_tell_nothing_is_joined_again() {
    in_namespace(|| {
        let scene = Scene::new();
        let mut groups = scene.joined();
        groups.rejoin_lost(&Memberships::default());
        assert!(groups.to_join.is_empty());
        assert!(scene.is_joined());
    });
}
