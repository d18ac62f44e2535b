//! The identity of this process in leader election.

/// Error when the unique name of this process cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {file}, which gives this process a unique name: {reason}; mount /proc")]
pub struct IdentityError {
    file: &'static str,
    #[source]
    reason: std::io::Error,
}

/// `<hostname>_<uuid>`: unique among all candidates, and a person sees which machine it is (service-contract S-61).
pub fn identity() -> Result<String, IdentityError> {
    let read = |file: &'static str| {
        let text = std::fs::read_to_string(file);
        text.map(|text| text.trim().to_owned()).map_err(|reason| IdentityError { file, reason })
    };
    let host = read("/proc/sys/kernel/hostname")?;
    Ok(format!("{host}_{}", read("/proc/sys/kernel/random/uuid")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_candidates_on_one_host_have_different_identities() {
        let [one, other] = [(); 2].map(|()| identity().unwrap());
        assert_ne!(one, other);
        let ((host, uuid), (same, _)) = (one.rsplit_once('_').unwrap(), other.rsplit_once('_').unwrap());
        assert_eq!(host, same);
        assert!(!host.is_empty() && uuid.len() == 36, "{one}");
    }
}
