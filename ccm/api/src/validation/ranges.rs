//! Lists of address ranges: CIDRs, ranges `a-b`, and single addresses.
//!
//! CEL neither orders addresses nor reads hexadecimal numbers: IPv4 addresses are compared as numbers made of their
//! octets, IPv6 addresses bit by bit by the networks that hold them. The API server counts what a rule may cost at worst,
//! and `map` with a list of one list stands for the variable that CEL does not have. What is here passes the estimate of
//! Kubernetes 1.31, too: it knows no `transformList`, and takes `==` of two addresses or CIDRs for endless. Of two CIDRs it finds with
//! `containsCIDR` only that one holds the other which begin alike; with `containsIP` all versions say whether they meet.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Items of a list.
const MOST: u8 = 64;

/// Blocks of which no Service can have an address.
const UNUSABLE: [&str; 6] =
    ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/127", "ff00::/8"];

const UNUSABLE_MESSAGE: &str = "'address range \"' + self + '\" includes unspecified, loopback, multicast or \
    broadcast addresses, which cannot be given to a Service: leave them out'";

/// Returns the schema of a list of address ranges: 1 to 64 of at most 100 characters, none of which overlap.
///
/// Two mistakes are beyond CEL; the controller finds them and reports them in the pool's condition `Ready`: a range that merely spans an
/// unusable block, and an IPv6 range that holds another, or a CIDR, of the list.
pub(crate) fn address_ranges(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = excluded_ranges(generator);
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("x-kubernetes-validations".to_owned(), overlaps().into());
    schema
}

/// As [`address_ranges`], but it may be empty, and overlaps do no harm.
pub(crate) fn excluded_ranges(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST,
        "x-kubernetes-list-type": "atomic",
        "items": { "type": "string", "minLength": 1, "maxLength": 100, "x-kubernetes-validations": each() },
    })
}

/// The CEL expressions about the text that the CEL variable `text` holds.
struct Item<'a> {
    text: &'a str,
}

impl Item<'_> {
    /// The first address of a range. Not with `split`: the size of its parts is not known to the cost estimate.
    fn first(&self) -> String {
        let Self { text } = self;
        format!("{text}.substring(0, {text}.indexOf('-')).trim()")
    }

    /// The last address of a range.
    fn last(&self) -> String {
        let Self { text } = self;
        format!("{text}.substring({text}.indexOf('-') + 1).trim()")
    }

    fn is_range(&self) -> String {
        format!("{}.contains('-') && isIP({}) && isIP({})", self.text, self.first(), self.last())
    }

    fn is_cidr(&self) -> String {
        format!("!{0}.contains('-') && isCIDR({0}.trim())", self.text)
    }

    fn is_single(&self) -> String {
        format!("isIP({}.trim())", self.text)
    }

    fn is_valid(&self) -> String {
        format!("({}) || ({}) || {}", self.is_range(), self.is_cidr(), self.is_single())
    }

    /// The network of a valid IPv4 CIDR, as text. Not with `string`: the size of what it gives is not known to the cost
    /// estimate, that of the items of a list is. (An IPv6 network cannot be written so.)
    fn network_v4(&self) -> String {
        let Self { text } = self;
        let texts: Vec<_> = (0..=255).map(|number: u8| format!("'{number}'")).collect();
        let texts = texts.join(",");
        // How many numbers an octet is one of, by how many bits of the prefix reach beyond the octet 24 bits before it.
        let sizes: Vec<_> =
            (0..=56_u32).map(|bits| (1_u32 << (32_u32.saturating_sub(bits)).min(8)).to_string()).collect();
        let sizes = sizes.join(",");
        let octet = |index: u8| {
            let size = format!("[{sizes}][cidr({text}.trim()).prefixLength() + {}]", 24 - 8 * index);
            let number = format!("int({text}.substring(0, {text}.indexOf('/')).trim().split('.')[{index}])");
            format!("[{texts}][{number} / {size} * {size}]")
        };
        let octets = [0, 1, 2, 3].map(octet).join(" + '.' + ");
        format!("{octets} + {text}.substring({text}.indexOf('/')).trim()")
    }

    /// Lowest and highest address of a valid IPv4 item, as numbers.
    fn interval(&self) -> String {
        let Self { text } = self;
        let before_prefix =
            format!("{text}.contains('/') ? {text}.substring(0, {text}.indexOf('/')) : {text}");
        let low = format!("({text}.contains('-') ? {} : {before_prefix}).trim()", self.first());
        let high = format!("({text}.contains('-') ? {} : {before_prefix}).trim()", self.last());
        let more: Vec<_> = (0..=32).map(|bits| ((1_u64 << (32 - bits)) - 1).to_string()).collect();
        let more =
            format!("({text}.contains('/') ? [{}][cidr({text}.trim()).prefixLength()] : 0)", more.join(", "));
        format!("[{}, {} + {more}]", number(&low), number(&high))
    }
}

/// The IPv4 address that the expression `address` gives the text of, as a number.
fn number(address: &str) -> String {
    let octet = |index: u8| format!("int({address}.split('.')[{index}])");
    format!("{} * 16777216 + {} * 65536 + {} * 256 + {}", octet(0), octet(1), octet(2), octet(3))
}

/// Returns the rules for each item.
fn each() -> Vec<Value> {
    let item = Item { text: "self" };
    let (first, last) = (item.first(), item.last());
    let (is_range, is_cidr, is_single) = (item.is_range(), item.is_cidr(), item.is_single());
    let same_family = format!("ip({first}).family() == ip({last}).family()");
    let usable = |address: &str| {
        let blocks: Vec<_> =
            UNUSABLE.iter().map(|block| format!("!cidr('{block}').containsIP({address})")).collect();
        blocks.join(" && ")
    };
    let in_order = format!(
        "!({is_range}) || !({same_family}) || (ip({first}).family() == 4 ? {} <= {} : {})",
        number(&first),
        number(&last),
        in_order_v6(&first, &last)
    );
    vec![
        json!({
            "rule": item.is_valid(),
            "messageExpression": "'address range \"' + self + '\" is neither a CIDR, nor a range of two addresses, nor an \
                address: write 192.0.2.0/28, 192.0.2.10-192.0.2.20 or 192.0.2.10'",
        }),
        json!({
            "rule": format!(
                "!({is_cidr}) || cidr(self.substring(0, self.indexOf('/')).trim() + (self.contains(':') ? '/128' : '/32'))\
                 .containsIP(cidr(self.trim()).masked().ip())"
            ),
            "messageExpression": format!(
                "'address range \"' + self + '\" has bits set behind its prefix length: ' + \
                 (self.contains(':') ? 'clear them' : 'write ' + {}) + ' for the whole subnet, or write ' + \
                 self.substring(0, self.indexOf('/')).trim() + ' for the one address'",
                item.network_v4()
            ),
        }),
        json!({
            "rule": format!("!({is_range}) || {same_family}"),
            "messageExpression": "'address range \"' + self + '\" mixes IPv4 and IPv6: write one range for each family'",
        }),
        json!({
            "rule": in_order,
            "messageExpression": format!(
                "'address range \"' + self + '\" ends before it begins: write ' + {last} + '-' + {first}"
            ),
        }),
        json!({
            "rule": format!("!({is_cidr}) || ({})", usable("cidr(self.trim()).masked().ip()")),
            "messageExpression": UNUSABLE_MESSAGE,
        }),
        json!({
            "rule": format!("!({is_range}) || ({} && {})", usable(&first), usable(&last)),
            "messageExpression": UNUSABLE_MESSAGE,
        }),
        json!({
            "rule": format!("!{is_single} || ({})", usable("self.trim()")),
            "messageExpression": UNUSABLE_MESSAGE,
        }),
    ]
}

/// Returns the expression that the IPv6 address `first` is not above `last`. It is above if, in the first bit in which they differ, `last`
/// has the 0: of the network of both up to that bit, `last` is in the lower half and `first` is not.
fn in_order_v6(first: &str, last: &str) -> String {
    let bits: Vec<_> = (0..128).map(|bit: u8| bit.to_string()).collect();
    let prefixes: Vec<_> = (0..=128).map(|bits: u8| format!("'/{bits}'")).collect();
    let network = |address: &str, bits: &str| format!("cidr({address} + [{}][{bits}])", prefixes.join(", "));
    format!(
        "[{}].all(bit, !{}.containsIP({}.masked().ip()) || {}.containsIP({last}))",
        bits.join(", "),
        network(last, "bit + 1"),
        network(first, "bit"),
        network(first, "bit + 1"),
    )
}

/// Returns the rules that no address is written twice. Invalid items are reported by their own rules.
fn overlaps() -> Vec<Value> {
    let item = Item { text: "x" };
    let (first, last) = (item.first(), item.last());
    let valid = item.is_valid();
    let items: Vec<_> = (0..MOST).map(|item: u8| item.to_string()).collect();
    let items = items.join(", ");
    let message = |named: String| format!("'addresses ' + {named} + ' overlap: write each address once'");

    // Items of the other family have an interval that holds nothing.
    let intervals = format!("self.map(x, !x.contains(':') && ({valid}) ? {} : [0, -1])", item.interval());
    let meet = |one: &str| format!("all.filter(b, {one}[0] <= b[1] && b[0] <= {one}[1]).size() > 1");
    let named = format!(
        "[{intervals}].map(all, [{items}].filter(i, i < self.size() && {}).map(i, self[i]))[0].join(' and ')",
        meet("all[i]")
    );

    let networks_only = format!("self.filter(x, x.contains(':') && !x.contains('-') && ({valid}))");
    let networks = format!("{networks_only}.map(x, cidr(x.contains('/') ? x.trim() : x.trim() + '/128'))");
    let meet_v6 =
        |one: &str| format!("all.filter(b, {one}.containsIP(b.ip()) || b.containsIP({one}.ip())).size() > 1");
    let named_v6 = format!(
        "[{networks}].map(all, [{items}].filter(i, i < all.size() && {}).map(i, {networks_only}[i]))[0].join(' and ')",
        meet_v6("all[i]")
    );

    let is_range = format!("x.contains(':') && {}", item.is_range());
    let reaches = format!("all.exists(n, n.containsIP({first}) || n.containsIP({last}))");
    let named_reaching =
        format!("[{networks}].map(all, self.filter(x, {is_range} && {reaches}))[0].join(' and ')");
    vec![
        json!({
            "rule": "self.all(x, self.exists_one(y, y == x))",
            "messageExpression": "'addresses ' + self.filter(x, !self.exists_one(y, y == x))[0] + ' is written more than \
                once: write each address once'",
        }),
        json!({
            "rule": format!("[{intervals}].all(all, !all.exists(a, {}))", meet("a")),
            "messageExpression": message(named),
        }),
        json!({
            "rule": format!("[{networks}].all(all, !all.exists(a, {}))", meet_v6("a")),
            "messageExpression": message(named_v6),
        }),
        json!({
            "rule": format!("[{networks}].all(all, !self.exists(x, {is_range} && {reaches}))"),
            "messageExpression": format!(
                "'addresses ' + {named_reaching} + ' overlap with a CIDR or an address of the same list: write each address \
                 once'"
            ),
        }),
    ]
}
