use super::*;
use crate::checks::command;

async fn run(words: &[&str], limit: Duration) -> Result<(), String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    command::run(&words, Within::from_now(limit)).await
}

#[tokio::test]
async fn exit_code_0_is_well_and_the_last_line_says_why_another_is_not() {
    for (words, expected) in [
        (&["/bin/true"][..], Ok(())),
        (&["/bin/false"], Err("it ended with exit code 1")),
        (&["/bin/sh", "-c", "echo one; echo two; exit 3"], Err("it ended with exit code 3: two")),
        (&["/bin/sh", "-c", "echo why >&2; echo so; exit 1"], Err("it ended with exit code 1: why")),
        (&["/bin/sh", "-c", "echo all well"], Ok(())),
        // No shell comes between: an argument is what it is.
        (
            &["/bin/sh", "-c", "echo \"$1\"; exit 1", "sh", "a  b; $(c)"],
            Err("it ended with exit code 1: a  b; $(c)"),
        ),
        (&["/bin/sh", "-c", "kill -9 $$"], Err("it ended with signal: 9 (SIGKILL)")),
        (&["/nowhere/at-all"], Err("cannot run /nowhere/at-all: No such file or directory (os error 2)")),
        (&["/etc/passwd"], Err("cannot run /etc/passwd: Permission denied (os error 13)")),
        // As much as it may print, only the end is kept.
        (&["/bin/sh", "-c", "seq 1 100000; exit 1"], Err("it ended with exit code 1: 100000")),
        // Who reads its input finds none.
        (&["/bin/cat"], Ok(())),
    ] {
        assert_eq!(run(words, AMPLE).await, expected.map_err(str::to_owned), "{words:?}");
    }
}

/// Whether the process is gone, but for what its parent still has to hear of it.
fn is_gone(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z') || rest.starts_with('X'))
        }
        Err(_) => true,
    }
}

async fn await_gone(pid: &str) {
    let gone = async {
        while !is_gone(pid) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AMPLE, gone).await.unwrap_or_else(|_| panic!("process {pid} is still there"));
}

#[tokio::test]
async fn a_command_that_does_not_end_is_ended_with_all_that_it_started() {
    let hanging = ["/bin/sh", "-c", "sleep 1000 & echo $!; wait"];
    let found = run(&hanging, Duration::from_secs(2)).await.unwrap_err();
    let pid = found.strip_prefix("it did not end within 2s: ").unwrap_or_else(|| panic!("{found}"));
    await_gone(pid).await;
    // One that ends and leaves something behind, too, and that is not waited for.
    let leaving = run(&["/bin/sh", "-c", "sleep 1000 & echo $!; exit 1"], AMPLE).await.unwrap_err();
    let pid = leaving.strip_prefix("it ended with exit code 1: ").unwrap_or_else(|| panic!("{leaving}"));
    await_gone(pid).await;
}

#[tokio::test]
async fn a_command_whose_check_ends_is_ended() {
    let folder = Folder::new();
    let file = folder.0.join("pid");
    let script = format!("echo $$ > {}; exec sleep 1000", file.display());
    let words = ["/bin/sh", "-c", &script].map(str::to_owned);
    let running = tokio::spawn(async move { command::run(&words, Within::from_now(AMPLE)).await });
    let written = async {
        loop {
            match std::fs::read_to_string(&file) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                Ok(_) | Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let pid = tokio::time::timeout(AMPLE, written).await.unwrap();
    assert!(!is_gone(&pid));
    running.abort();
    await_gone(&pid).await;
}
