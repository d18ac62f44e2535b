//! Lists in messages: of many the first few, and how many more there are.

/// The first `most` of these, as `a, b and 7 more`.
pub fn first_of(all: impl ExactSizeIterator<Item = impl ToString>, most: usize) -> String {
    let total = all.len();
    let named: Vec<String> = all.take(most).map(|one| one.to_string()).collect();
    list(&named, total)
}

/// `named`, and how many more there are of `total`.
pub fn list(named: &[String], total: usize) -> String {
    let more = total.saturating_sub(named.len());
    let end = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{end}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_the_first_are_named_and_the_others_counted() {
        let of = |count| first_of([1, 2, 3, 4].iter().take(count), 3);
        assert_eq!([0, 1, 3, 4].map(of), ["", "1", "1, 2, 3", "1, 2, 3 and 1 more"]);
    }
}
