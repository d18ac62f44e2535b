use std::os::unix::fs::symlink;

use tokio::time::{Instant, timeout};

use super::*;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("windlass-files-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn what_is_new_is_told_once_whether_it_can_be_read_or_not() {
    let folder = folder("news");
    let path = folder.join("file");
    let mut file = WatchedFile::open(&path);
    assert!(
        file.content().unwrap_err().to_string().starts_with(&format!("cannot read {}: ", path.display()))
    );
    assert!(!file.refresh(), "it was not there before");
    std::fs::write(&path, "one").unwrap();
    assert!(file.refresh() && !file.refresh());
    assert_eq!(file.content().unwrap(), b"one");
    // As a kubelet changes a mounted ConfigMap: by a link.
    let [other, link] = ["other", "link"].map(|name| folder.join(name));
    std::fs::write(&other, "two").unwrap();
    symlink(&other, &link).unwrap();
    std::fs::rename(&link, &path).unwrap();
    assert!(file.refresh());
    assert_eq!(file.content().unwrap(), b"two");
    std::fs::remove_file(&path).unwrap();
    assert!(file.refresh() && !file.refresh());
    assert!(file.content().is_err());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_no_small_file_is_not_read() {
    let folder = folder("odd");
    let fits = usize::try_from(MOST).unwrap();
    for (length, is_read) in [(0, true), (fits, true), (fits + 1, false)] {
        let path = folder.join("long");
        std::fs::write(&path, vec![b'x'; length]).unwrap();
        assert_eq!(WatchedFile::open(&path).content().is_ok(), is_read, "{length}");
    }
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for odd in [&pipe, &folder, Path::new("/dev/zero")] {
        let error = WatchedFile::open(odd).content().unwrap_err().to_string();
        assert!(error.contains("it is no file"), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_is_found_at_the_next_look() {
    let folder = folder("changed");
    let path = folder.join("file");
    std::fs::write(&path, "one").unwrap();
    let mut file = WatchedFile::open(&path);
    assert!(timeout(Duration::from_mins(1), file.changed()).await.is_err(), "nothing changed");
    std::fs::write(&path, "two").unwrap();
    let began = Instant::now();
    file.changed().await;
    assert_eq!(file.content().unwrap(), b"two");
    assert!(began.elapsed() <= POLL_INTERVAL + Duration::from_millis(1), "in virtual time");
    std::fs::remove_dir_all(folder).unwrap();
}
