use anyhow::bail;

use super::*;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn returns_the_value_once_it_is_there_whatever_failed_before() {
    let mut looks = 0;
    let value = block_on(await_that("three looks are made", Duration::from_mins(1), async || {
        looks += 1;
        match looks {
            1 => Ok(None),
            2 => bail!("connection refused"),
            _ => Ok(Some(looks)),
        }
    }));
    assert_eq!(value.unwrap(), 3);
}

#[test]
fn the_complaint_names_what_was_awaited_and_what_was_seen_last() {
    let result: anyhow::Result<()> =
        block_on(await_that("the sky falls", Duration::from_millis(1), async || bail!("it holds")));
    let text = result.unwrap_err().to_string();
    assert!(text.contains("until the sky falls; last seen: it holds"), "{text}");
}

#[test]
fn a_look_that_never_ends_is_cut_off() {
    let result: anyhow::Result<()> =
        block_on(await_that("it ends", Duration::from_millis(1), async || std::future::pending().await));
    let text = result.unwrap_err().to_string();
    assert!(text.contains("a look that did not end"), "{text}");
}

#[test]
fn a_hopeless_wait_ends_at_once_and_says_why() {
    let result: anyhow::Result<()> = block_on(await_that("it runs", Duration::from_hours(1), async || {
        Err(anyhow!("etcd has ended").context(Hopeless))
    }));
    let text = format!("{:#}", result.unwrap_err());
    assert_eq!(text, "waiting until it runs: no use to wait on: etcd has ended");
}
