//! Choice of the nodes that receive the connections of this one.

use super::super::desired::Replica;

/// Number of receiving nodes of lower priority: two may die one after the other.
const NEXT: usize = 2;

/// Returns the receiving nodes, from replicas sorted best first: all that rank above this node, which may take an address back, and the
/// best of the ones below it, which take over when it dies. Only nodes that answer count: otherwise no node would have the connections
/// where the best two are dead. If fewer than two are found, the best silent nodes fill up, as they may be about to answer.
pub(super) fn of(replicas: &[Replica], answers: impl Fn(&Replica) -> bool) -> Vec<&Replica> {
    let (living, silent): (Vec<&Replica>, Vec<&Replica>) = replicas.iter().partition(|one| answers(one));
    let (mut told, below): (Vec<&Replica>, Vec<&Replica>) =
        living.into_iter().partition(|one| one.ranks_above);
    told.extend(below.into_iter().take(NEXT));
    let missing = NEXT.saturating_sub(told.len());
    told.extend(silent.into_iter().take(missing));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_take_an_address_back_is_told_and_the_best_two_that_live() {
        // Above this node are a and b, below it c to f.
        let rows = [
            ("all live", "abcdef", "abcd"),
            ("one above is dead", "bcdef", "bcd"),
            ("this is the first that lives", "cdef", "cd"),
            ("the best two below are dead", "bef", "bef"),
            ("all but one below", "f", "fa"),
            ("all below", "ab", "ab"),
            ("but one above", "b", "ba"),
            ("nobody was heard yet", "", "ab"),
        ];
        for (what, living, expected) in rows {
            let replica = |node: char| Replica {
                node: node.to_string(),
                addresses: [].into(),
                ranks_above: node < 'c',
            };
            let replicas: Vec<Replica> = "abcdef".chars().map(replica).collect();
            let told = of(&replicas, |one| living.contains(&one.node));
            assert_eq!(told.iter().map(|one| one.node.as_str()).collect::<String>(), expected, "{what}");
        }
        assert!(of(&[], |_| true).is_empty());
    }
}
