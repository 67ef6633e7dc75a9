//! The example configurations are sound.

use std::{path::Path, process::Command};

#[test]
fn every_example_configuration_passes_the_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let output = Command::new(env!("CARGO_BIN_EXE_kvcm-server"))
            .args(["--check-config", "-c"])
            .arg(&path)
            .env_clear()
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {text}", path.display());
        assert_eq!(text, "", "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 3);
}
