//! Texts of the page for API users.

/// Heading.
pub const TITLE: &str = "API";
/// Paragraphs below the heading.
pub const INTRODUCTION: [&str; 5] = [
    "Everything here is asked with GET and answered as JSON. Pages of any origin may ask; no key is needed. An address that asks for more \
     than its share is answered 429 and a header retry-after.",
    "Lists come in pages: limit items (25, at most 100), and in next the cursor of the page that follows, or null at the end. A cursor is \
     the place where the list goes on, so nothing is missed or doubled while the chain grows.",
    "Amounts of wei and of tokens are decimal strings, other numbers are numbers; addresses have the capitals of their checksum, bytes are \
     0x and digits. Fields that do not apply are null, and none is left out.",
    "A question without an answer is answered with a status of 400 and above and why, under error.",
    "Names, symbols and texts are what strangers' contracts say: show them as text.",
];
/// Heading above the endpoints.
pub const ENDPOINTS: &str = "Questions";
/// Heading above the objects.
pub const OBJECTS: &str = "Objects";
/// Heading above the files.
pub const FILES: &str = "Files";
/// Explains [`FILES`].
pub const FILES_NOTE: &str = "Files of comma-separated values (RFC 4180), newest row first. One has at most 50,000 rows; if there are more, \
                              its last line says so and names the cursor of the next file. A text that a spreadsheet would take for a \
                              formula begins with an apostrophe.";
/// Heading above the endpoints that are compatible with Etherscan.
pub const ETHERSCAN: &str = "For tools made for Etherscan";
/// Explains [`ETHERSCAN`].
pub const ETHERSCAN_NOTE: &str = "/api?module=…&action=… answers these in the envelope status, message, result, with GET, or \
     POST of a form. A key (apikey) and a chain id (chainid) may be given and are ignored. Lists take startblock, endblock, \
     page, offset (rows of a page: 1,000 if it is left out, and more is refused), sort (asc, the default, or desc); page \
     times offset is at most 10,000. Source code is not verified here: what is served is the interface that a contract's \
     code carries, or that was uploaded.";
/// Column header.
pub const PARAMETER: &str = "Parameter";
/// Column header.
pub const MEANING: &str = "Meaning";
/// Column header.
pub const FIELD: &str = "Field";
/// Column header.
pub const HOLDS: &str = "Holds";
/// Column header.
pub const ACTION: &str = "module and action";
/// Column header.
pub const TAKES: &str = "Takes";
/// Column header.
pub const ANSWER: &str = "Answer";
/// Summary above an example response.
pub const EXAMPLE: &str = "Example answer";
/// Label above the columns of a file.
pub const COLUMNS: &str = "Columns";
/// Marks an optional parameter.
pub const OPTIONAL: &str = "optional";
/// Follows the address of this page.
pub const SAYS: &str = "says what there is.";
