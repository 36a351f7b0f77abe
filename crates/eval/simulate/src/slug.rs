//! Names of files.

/// A name that shells and file systems take as it is.
pub(crate) fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(slug("w3 RPC 76 % homa"), "w3-rpc-76-homa");
        assert_eq!(slug("../a b/c"), "a-b-c");
    }
}
