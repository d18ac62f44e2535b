//! Settings that the admin chose by flags of the controller.

use std::time::Duration;

use windlass_api::LOAD_BALANCER_CLASS;

/// Settings that decide which Services are served, which of their annotations are read, and when addresses are spread anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Serve Services without `spec.loadBalancerClass`; those of the class `windlass.dev/windlass` always are.
    pub classless_services: bool,
    /// Read the address annotations of MetalLB and kube-vip where ours are not set (`--compat-annotations`).
    pub compat_annotations: bool,
    /// Time that a node has to be ready before it is given addresses that others have (`--rebalance-settle-seconds`).
    pub settling: Duration,
}

impl Default for Settings {
    /// As with no flag given.
    fn default() -> Self {
        Self { classless_services: true, compat_annotations: false, settling: Duration::from_mins(5) }
    }
}

impl Settings {
    /// Returns true if Services of this class are served (service-contract S-01, allocation scenario 65).
    pub fn serves_class(self, class: Option<&str>) -> bool {
        class.map_or(self.classless_services, |class| class == LOAD_BALANCER_CLASS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_class_is_always_served_others_never_and_none_as_the_admin_chose_65() {
        for classless_services in [true, false] {
            let settings = Settings { classless_services, ..Settings::default() };
            let rows = [
                (None, classless_services),
                (Some("windlass.dev/windlass"), true),
                (Some("windlass.dev/windlass2"), false),
                (Some("example.org/other"), false),
                (Some(""), false),
            ];
            for (class, served) in rows {
                assert_eq!(settings.serves_class(class), served, "{class:?} {classless_services}");
            }
        }
    }
}
