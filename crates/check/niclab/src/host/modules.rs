//! Kernel modules of a package: where they are, and what each needs.

use super::{LabError, file, output};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The modules of one kernel.
#[derive(Debug)]
pub struct Modules {
    /// By name, with underscores.
    files: BTreeMap<String, PathBuf>,
    /// Those that are part of the kernel.
    built_in: String,
}

/// A module as it is loaded.
#[derive(Debug)]
pub struct LoadedModule {
    /// With underscores.
    pub name: String,
    /// What is in its file.
    pub content: Vec<u8>,
}

impl Modules {
    /// Those below a kernel's directory in `lib/modules`.
    pub fn find(directory: &Path) -> Result<Self, LabError> {
        let mut files = BTreeMap::new();
        collect(&directory.join("kernel"), &mut files)?;
        let built_in = fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
        Ok(Self { files, built_in })
    }

    /// A module and all that it needs, in the order in which to load them, with their contents.
    pub fn with_needed(&self, name: &str) -> Result<Vec<LoadedModule>, LabError> {
        let mut loaded = Vec::new();
        self.add(&plain(name), &mut loaded)?;
        Ok(loaded)
    }

    /// Whether the kernel has a module, or has it built in.
    pub fn has(&self, name: &str) -> bool {
        let name = plain(name);
        self.files.contains_key(&name) || self.is_built_in(&name)
    }

    fn add(&self, name: &str, loaded: &mut Vec<LoadedModule>) -> Result<(), LabError> {
        if loaded.iter().any(|known| known.name == name) || self.is_built_in(name) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| {
            LabError::Package(format!(
                "the kernel has no module '{name}'; choose another kernel or model"
            ))
        })?;
        let content = match path.extension().is_some_and(|extension| extension == "xz") {
            true => output(Command::new("xz").arg("-dc").arg(path))?,
            false => fs::read(path).map_err(file("reading", path))?,
        };
        for needed in needed(&content) {
            self.add(&needed, loaded)?;
        }
        loaded.push(LoadedModule { name: name.to_owned(), content });
        Ok(())
    }

    fn is_built_in(&self, name: &str) -> bool {
        self.built_in.lines().any(|line| {
            let file = line.rsplit('/').next().unwrap_or(line);
            plain(file.trim_end_matches(".ko")) == name
        })
    }
}

/// Modules are named with dashes in files and with underscores elsewhere.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn collect(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), LabError> {
    for entry in fs::read_dir(directory).map_err(file("reading", directory))? {
        let path = entry.map_err(file("reading", directory))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && let Some((name, "ko" | "ko.xz")) = name.split_once('.')
        {
            files.insert(plain(name), path);
        }
    }
    Ok(())
}

/// What a module says that it needs (section `.modinfo`, "depends=a,b").
fn needed(content: &[u8]) -> Vec<String> {
    const MARK: &[u8] = b"\0depends=";
    let Some(at) = content.windows(MARK.len()).position(|window| window == MARK) else {
        return Vec::new();
    };
    let text = &content[at + MARK.len()..];
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let names = String::from_utf8_lossy(&text[..end]);
    names.split(',').filter(|name| !name.is_empty()).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(directory: &Path, name: &str, needs: &str) {
        let path = directory.join("kernel/net").join(format!("{name}.ko"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("ELF\0license=GPL\0depends={needs}\0name={name}\0")).unwrap();
    }

    #[test]
    fn what_a_module_needs_comes_before_it_and_once() {
        let directory = tempfile::tempdir().unwrap();
        module(directory.path(), "virtio_net", "net-failover,virtio");
        module(directory.path(), "net_failover", "failover,virtio");
        module(directory.path(), "failover", "");
        fs::write(directory.path().join("modules.builtin"), "kernel/drivers/virtio/virtio.ko\n")
            .unwrap();
        let modules = Modules::find(directory.path()).unwrap();
        let loaded = modules.with_needed("virtio-net").unwrap();
        let names: Vec<&str> = loaded.iter().map(|module| &module.name[..]).collect();
        assert_eq!(names, ["failover", "net_failover", "virtio_net"]);
        assert!(modules.has("virtio-net") && modules.has("virtio") && !modules.has("e1000"));
        let error = modules.with_needed("e1000").unwrap_err().to_string();
        assert!(error.contains("no module 'e1000'"), "{error}");
    }
}
