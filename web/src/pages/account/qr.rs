//! QR code of an address.

use crate::pages::account::texts;
use alloy_primitives::Address;
use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use std::fmt::Write;

/// Quiet zone around the code, in modules. Cameras need it to find the code.
const MARGIN: i32 = 4;

/// QR code of the address. It is black on white in every theme, because cameras need that.
pub fn of(address: Address) -> Markup {
    let Ok(code) = QrCode::encode_text(&address.to_string(), QrCodeEcc::Medium) else { return html! {} };
    let side = code.size() + 2 * MARGIN;
    html! {
        svg .qr viewBox={ "0 0 " (side) " " (side) } role="img" aria-label={ (texts::QR) " " (address) } {
            rect width=(side) height=(side) fill="#fff" {}
            path d=(path(&code)) fill="#000" {}
        }
    }
}

/// SVG path with one bar for each run of dark modules in a row.
fn path(code: &QrCode) -> String {
    let mut path = String::new();
    for y in 0..code.size() {
        let mut x = 0;
        while x < code.size() {
            let run = (x..code.size()).take_while(|x| code.get_module(*x, y)).count() as i32;
            if run > 0 {
                let _ = write!(path, "M{} {}h{run}v1h-{run}z", x + MARGIN, y + MARGIN);
            }
            x += run.max(1);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qr_code_draws_exactly_dark_modules() {
        let address = Address::repeat_byte(0xab);
        let code = QrCode::encode_text(&address.to_string(), QrCodeEcc::Medium).unwrap();
        let dark =
            (0..code.size()).flat_map(|y| (0..code.size()).map(move |x| (x, y))).filter(|(x, y)| code.get_module(*x, *y));
        let drawn: i32 =
            path(&code).split('M').skip(1).map(|bar| bar.split(['h', 'v']).nth(1).unwrap().parse::<i32>().unwrap()).sum();
        assert_eq!(drawn as usize, dark.count());
        assert!(of(address).into_string().len() < 12_000);
    }
}
