//! One lab of a name at a time: the second would take the first one's folder away.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

/// Held while a lab of a name exists; the kernel releases it when its owner dies.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock of the lab `name`, the file `<name>.lock` in `folder`, or says who has it.
    pub(crate) fn take(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let path = folder.join(format!("{name}.lock"));
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = file.with_context(|| format!("opening {}", path.display()))?;
            match file.try_lock() {
                Ok(()) => {
                    // Its last owner may have removed the file between our opening and locking it.
                    let inode = file.metadata()?.ino();
                    if fs::metadata(&path).is_ok_and(|there| there.ino() == inode) {
                        file.set_len(0)?;
                        file.rewind()?;
                        write!(file, "{}", std::process::id())?;
                        return Ok(Self { path, _file: file });
                    }
                }
                Err(TryLockError::WouldBlock) => {
                    let mut owner = String::new();
                    let _ = file.read_to_string(&mut owner);
                    bail!(
                        "a lab named {name} is running already, by process {}: end it first, or wait for its end",
                        owner.trim()
                    );
                }
                Err(TryLockError::Error(error)) => bail!("locking {}: {error}", path.display()),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_lab_of_a_name_is_refused_with_the_first_ones_process() -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("windlass-lock-{}", std::process::id()));
        let first = Lock::take(&folder, "twice")?;
        let refused = Lock::take(&folder, "twice").err().context("there are two")?.to_string();
        assert!(refused.contains("a lab named twice is running already"), "{refused}");
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        let other = Lock::take(&folder, "other")?;
        drop((first, other));
        assert_eq!(fs::read_dir(&folder)?.count(), 0, "a lock file is left");
        drop(Lock::take(&folder, "twice")?);
        fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
