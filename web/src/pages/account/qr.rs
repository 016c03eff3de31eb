//! An address for a phone's camera.

use crate::words::account as words;
use alloy_primitives::Address;
use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use std::fmt::Write;

/// Light around the code, in its dots, without which cameras do not find it.
const MARGIN: i32 = 4;

/// The address as a QR code. Black on white whatever the palette: cameras want it so.
pub fn of(address: Address) -> Markup {
    let Ok(code) = QrCode::encode_text(&address.to_string(), QrCodeEcc::Medium) else { return html! {} };
    let side = code.size() + 2 * MARGIN;
    html! {
        svg .qr viewBox={ "0 0 " (side) " " (side) } role="img" aria-label={ (words::QR) " " (address) } {
            rect width=(side) height=(side) fill="#fff" {}
            path d=(path(&code)) fill="#000" {}
        }
    }
}

/// One bar for each run of dark dots in a row.
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
    fn all_dark_dots_are_drawn_and_no_other() {
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
