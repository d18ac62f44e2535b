//! Common settings of our pods that use the host's network: no more rights than they need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The image that this binary is in. `make release` gives the name it is published by; else it is the one of `make image`, which
/// `manifests/base/kustomization.yaml` has, too.
pub const IMAGE: &str = match option_env!("WINDLASS_IMAGE") {
    Some(image) => image,
    None => "windlass:dev",
};

/// The container's rights: root with these capabilities alone, on a file system that is only read.
pub fn container_security(capabilities: &[&str]) -> SecurityContext {
    SecurityContext {
        run_as_user: Some(0),
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: Some(capabilities.iter().map(|one| (*one).to_owned()).collect()),
        }),
        ..SecurityContext::default()
    }
}

/// The pod's: the system calls that the container runtime lets everybody make.
pub fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Requests or limits.
pub fn quantities(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), Quantity((*value).to_owned()))).collect()
}
