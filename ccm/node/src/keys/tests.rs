use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// A secret that is told from others by its letter.
fn secret(letter: char) -> String {
    letter.to_string().repeat(32)
}

fn content(entries: &[(&str, &str)]) -> FolderContent {
    let mut content = FolderContent::default();
    for (name, text) in entries {
        content.add(name, Ok(text.as_bytes()));
    }
    content
}

/// The keys as `id=letter`.
fn shown(keys: &Keys) -> Vec<String> {
    let letters: Vec<(char, Key)> =
        ('a'..='e').map(|letter| (letter, secret(letter).parse().unwrap())).collect();
    let letter = |key: &Key| letters.iter().find(|(_, one)| one == key).map_or('?', |(letter, _)| *letter);
    keys.known.iter().map(|(id, key)| format!("{id}={}", letter(key))).collect()
}

#[test]
fn an_entry_is_a_key_by_its_name_and_its_text_or_says_why_not() {
    let hex = format!("hex:{}", "61".repeat(32));
    for text in [secret('a'), format!("{}\n", secret('a')), hex.clone(), format!("{hex}\r\n")] {
        assert_eq!(shown(&Keys::of_entries(&[("7", &text)])), ["7=a"], "{text:?}");
    }
    for bookkeeping in ["..data", "..2026_11_23_19_10_12.1", ".hidden"] {
        assert_eq!(content(&[(bookkeeping, "")]), FolderContent::default(), "{bookkeeping}");
    }
    let good = secret('a');
    let refused = [
        ("0", good.as_str(), "a number from 1 to 255"),
        ("256", &good, "a number from 1 to 255"),
        ("07", &good, "a number from 1 to 255"),
        ("+7", &good, "a number from 1 to 255"),
        ("key", &good, "a number from 1 to 255"),
        ("7", "", "0 bytes long"),
        ("7", "Swordfish", "9 bytes long"),
        ("7", "hex:nothing", "not hexadecimal"),
    ];
    for (name, text, why) in refused {
        let content = content(&[(name, text), ("9", &secret('b'))]);
        let fault = &content.faults[name];
        assert!(fault.contains(why), "{name} {text}: {fault}");
        assert!(text.is_empty() || !fault.contains(text), "{fault}");
        assert_eq!(shown(&Keys::default().renewed(&content, &BTreeSet::new())), ["9=b"], "{name} {text}");
    }
    let mut binary = FolderContent::default();
    binary.add("7", Ok(&[0xff; 32]));
    binary.add("8", Err("Permission denied".to_owned()));
    assert!(binary.faults["7"].contains("no text") && binary.faults["8"] == "Permission denied");
}

#[test]
fn what_works_is_not_taken_away_and_what_nobody_uses_is() {
    let (a, b, c) = (secret('a'), secret('b'), secret('c'));
    let both = Keys::of_entries(&[("1", &a), ("2", &b)]);
    let rows: [(&str, FolderContent, &[u8], &[&str]); 12] = [
        ("as before", content(&[("1", &a), ("2", &b)]), &[1], &["1=a", "2=b"]),
        ("one more", content(&[("1", &a), ("2", &b), ("3", &c)]), &[1], &["1=a", "2=b", "3=c"]),
        ("one that nobody uses goes", content(&[("1", &a)]), &[1], &["1=a"]),
        ("it was the old one", content(&[("2", &b)]), &[2], &["2=b"]),
        // The peers may sign with the other one.
        ("the one in use goes", content(&[("2", &b)]), &[1], &["1=a", "2=b"]),
        ("all of them go", content(&[]), &[1], &["1=a", "2=b"]),
        ("all of them go and nobody signs", content(&[]), &[], &[]),
        ("the one in use is broken", content(&[("1", ""), ("2", &b)]), &[1], &["1=a", "2=b"]),
        ("the other one is broken", content(&[("1", &a), ("2", "")]), &[1], &["1=a", "2=b"]),
        ("another one under its id", content(&[("1", &c), ("2", &b)]), &[1], &["1=c", "2=b"]),
        ("another one under the id of one that went", content(&[("2", &c)]), &[1], &["1=a", "2=c"]),
        (
            "the folder cannot be read",
            FolderContent::unreadable("Permission denied".to_owned()),
            &[],
            &["1=a", "2=b"],
        ),
    ];
    for (what, content, used, expected) in rows {
        let used = used.iter().copied().collect();
        assert_eq!(shown(&both.renewed(&content, &used)), expected, "{what}");
    }
    // Once nobody signs with it any more, a key that is not in the folder is forgotten.
    let kept = both.renewed(&content(&[("2", &b)]), &[1].into());
    assert_eq!(shown(&kept.renewed(&content(&[("2", &b)]), &[2].into())), ["2=b"]);
}

#[test]
fn what_is_not_in_order_is_told_and_no_secret_is() {
    let (a, b) = (secret('a'), secret('b'));
    let keys = Keys::of_entries(&[("1", &a), ("2", &b)]);
    let rows: [(&str, FolderContent, &[u8], &[&str]); 6] = [
        ("all is well", content(&[("1", &a), ("2", &b)]), &[1], &[]),
        ("nobody misses it", content(&[("1", &a)]), &[1], &[]),
        (
            "it is missed",
            content(&[("2", &b)]),
            &[1],
            &["VRRP key 1", "stays in use", "Secret windlass-vrrp-keys"],
        ),
        ("it was never there", content(&[("1", &a)]), &[1, 9], &["VRRP key 9", "not run", "add entry 9"]),
        ("no key", content(&[("1", &a), ("x", &b)]), &[1], &["entry x of /keys", "1 to 255"]),
        ("no folder", FolderContent::unreadable("EIO".to_owned()), &[], &["/keys cannot be read: EIO"]),
    ];
    for (what, content, used, expected) in rows {
        let used = used.iter().copied().collect();
        let new = keys.renewed(&content, &used);
        let told: Vec<String> = new.warnings(Path::new("/keys"), &content, &used).into_iter().collect();
        assert_eq!(told.len(), usize::from(!expected.is_empty()), "{what}: {told:?}");
        for word in expected {
            assert!(told[0].contains(word), "{what}: {told:?}");
        }
        assert!(!told.concat().contains(&a) && !told.concat().contains(&b), "{told:?}");
    }
    let debug = format!("{keys:?}");
    assert!(!debug.contains(&a), "{debug}");
}

#[test]
fn a_secret_that_changes_under_the_id_of_a_key_in_use_is_noticed() {
    let old = Keys::of_entries(&[("1", &secret('a')), ("2", &secret('b'))]);
    let new = Keys::of_entries(&[("1", &secret('c')), ("2", &secret('d')), ("3", &secret('e'))]);
    assert_eq!(old.replaced(&new, &[1, 3].into()).collect::<Vec<_>>(), [1]);
    assert_eq!(old.replaced(&old, &[1, 2].into()).count(), 0);
}

#[test]
fn a_router_signs_with_its_key_and_takes_what_any_of_them_signed() {
    let keys = Keys::of_entries(&[("1", &secret('a')), ("2", &secret('b')), ("255", &secret('c'))]);
    for id in [1, 2, 255] {
        let Authentication { keyring, mode, anti_replay } =
            keys.authentication(id, Interval::from_millis(100).unwrap()).unwrap();
        assert_eq!((keyring.signing().0.get(), mode), (id, AuthMode::Enforce));
        assert_eq!(anti_replay, AntiReplay::Window(Window::from_seconds(5).unwrap()));
        for (known, letter) in [(1, 'a'), (2, 'b'), (255, 'c')] {
            assert_eq!(keyring.get(known).unwrap().1, &secret(letter).parse::<Key>().unwrap(), "{known}");
        }
        assert!(keyring.get(3).is_none());
    }
    for id in [0, 3] {
        assert_eq!(keys.authentication(id, Interval::SECOND), None, "{id}");
        assert!(!keys.has(id), "{id}");
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("windlass-keys-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Replaces all entries as the kubelet does: a new folder, to which the link `..data` is moved, which the entries lead through.
    fn swap(&self, version: &str, entries: &[(&str, &str)]) {
        fs::create_dir(self.0.join(version)).unwrap();
        for (name, text) in entries {
            fs::write(self.0.join(version).join(name), text).unwrap();
        }
        symlink(version, self.0.join("..data_tmp")).unwrap();
        fs::rename(self.0.join("..data_tmp"), self.0.join("..data")).unwrap();
        for entry in fs::read_dir(&self.0).unwrap().map(Result::unwrap) {
            if !entry.file_name().to_string_lossy().starts_with('.') {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        for (name, _) in entries {
            symlink(Path::new("..data").join(name), self.0.join(name)).unwrap();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Entries, keys in use, whether the keys are others then, and which they are.
type Step<'a> = (&'a [(&'a str, &'a str)], &'a [u8], bool, &'a [&'a str]);

#[test]
fn the_mounted_secret_is_followed_as_the_kubelet_changes_it() {
    let (a, b) = (secret('a'), secret('b'));
    let mount = Folder::new("mount");
    let mut folder = KeyFolder::open(mount.0.join("not-there"));
    assert_eq!(shown(folder.keys()), [""; 0]);
    assert!(!folder.refresh(&[].into()));

    // Mounted empty, as long as there is no Secret.
    let mut followed = KeyFolder::open(mount.0.clone());
    assert!(!followed.refresh(&[].into()));
    let steps: [Step<'_>; 5] = [
        (&[("1", &a)], &[], true, &["1=a"]),
        (&[("1", &a), ("2", &b), ("README", "no key")], &[1], true, &["1=a", "2=b"]),
        (&[("1", &a), ("2", &b)], &[1], false, &["1=a", "2=b"]),
        // The Secret is deleted.
        (&[], &[2], false, &["1=a", "2=b"]),
        (&[("2", &b)], &[2], true, &["2=b"]),
    ];
    for (number, (entries, used, is_new, expected)) in steps.into_iter().enumerate() {
        mount.swap(&format!("..{number}"), entries);
        assert_eq!(followed.refresh(&used.iter().copied().collect()), is_new, "{number}");
        assert_eq!(shown(followed.keys()), expected, "{number}");
        assert!(!followed.refresh(&used.iter().copied().collect()), "{number}");
    }
    // An agent that is started now knows what is there now.
    assert_eq!(shown(KeyFolder::open(mount.0.clone()).keys()), ["2=b"]);

    folder = KeyFolder::open(mount.0.join("2"));
    assert_eq!(shown(folder.keys()), [""; 0]);
}
