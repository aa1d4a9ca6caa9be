//! Embeds the pages that `scripts/web.sh` has built in `target/web`, compressed. Without them, or without Node.js to build them, the program says
//! how it gets them, and shows a plain table.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// What the pages consist of.
const ASSETS: [&str; 4] = ["index.html", "app.js", "app.css", "icon.svg"];

fn main() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../target/web");
    println!("cargo:rerun-if-changed=build.rs");
    let mut list = String::from("&[");
    for name in ASSETS {
        let path = folder.join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let out = Path::new(&variable("OUT_DIR")).join(format!("{name}.gz"));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes).expect("memory can be written");
        std::fs::write(&out, encoder.finish().expect("memory can be written")).expect("OUT_DIR can be written");
        // Writing to a String cannot fail.
        let _ = write!(list, "(\"{name}\", include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.gz\"))),");
    }
    std::fs::write(Path::new(&variable("OUT_DIR")).join("assets.rs"), list + "]").expect("OUT_DIR can be written");
}
