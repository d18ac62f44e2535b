//! Handling of restrictions that the kernel does not accept as a whole: those of single addresses stay as they were, and all others are put
//! in force. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_dataplane::restriction::Restrictions;

#[cfg(test)]
mod tests;

/// Puts as much of `wanted` in force as `commit` takes, which has refused the whole; each call of it replaces what is in force,
/// or fails and changes nothing. The answer: the addresses that stay as `installed` has them, and why.
///
/// # Errors
/// The refusal is for something else than restrictions: with those that are installed it is refused as well.
pub(super) fn put_in_force<E>(
    installed: &Restrictions,
    wanted: &Restrictions,
    mut commit: impl FnMut(&Restrictions) -> Result<(), E>,
) -> Result<BTreeMap<IpAddr, E>, E> {
    commit(installed)?;
    let mut in_force = installed.clone();
    let mut refused = BTreeMap::new();
    let mut groups: Vec<Vec<IpAddr>> = vec![installed.differing(wanted).into_iter().collect()];
    while let Some(mut group) = groups.pop() {
        let Some(first) = group.first().copied() else { continue };
        let next = in_force.as_other_of(wanted, &group);
        match commit(&next) {
            Ok(()) => in_force = next,
            Err(error) if group.len() == 1 => {
                refused.insert(first, error);
            }
            Err(_) => {
                let rest = group.split_off(group.len() / 2);
                groups.extend([rest, group]);
            }
        }
    }
    Ok(refused)
}
