//! Texts of the API's reference, for `docs/explorer-api.md` and the page `/api`.

pub const TITLE: &str = "API";
pub const INTRODUCTION: [&str; 5] = [
    "Send GET requests; responses are JSON. Any origin may send requests, and no API key is needed. Above the request limit of an \
     address the response is 429 with the header retry-after.",
    "Lists are paginated: limit is the number of items (default 25, maximum 100), and next is the cursor of the next page, or null at \
     the end. A cursor names a position in the list, so no item is missed or repeated while the chain grows.",
    "Amounts of wei and of tokens are decimal strings; other numbers are JSON numbers. Addresses have an EIP-55 checksum. Bytes are 0x \
     and hexadecimal digits. All fields are always present; a field without a value is null.",
    "An error has a status of 400 or above, and a code and a message under error.",
    "Names, symbols and other text come from untrusted contracts: escape them before you display them.",
];
pub const ENDPOINTS: &str = "Endpoints";
pub const OBJECTS: &str = "Objects";
pub const FILES: &str = "CSV files";
pub const FILES_NOTE: &str = "Files of comma-separated values (RFC 4180), newest row first. A file has at most 50,000 rows. If there are more, \
     its last line says so and has the cursor of the next file. Text that a spreadsheet would read as a formula \
     starts with an apostrophe.";
pub const ETHERSCAN: &str = "Etherscan-compatible API";
pub const ETHERSCAN_NOTE: &str = "/api?module=…&action=… responds in the envelope status, message, result, to GET or to POST of a form. An API key \
     (apikey) and a chain ID (chainid) are accepted and ignored. Lists take startblock, endblock, page, offset (rows \
     of a page: default and maximum 1,000) and sort (asc, the default, or desc). Page times offset is at most 10,000. \
     Source code is not verified: responses contain the ABI that is embedded in the code or was uploaded.";
pub const PARAMETER: &str = "Parameter";
pub const MEANING: &str = "Description";
pub const FIELD: &str = "Field";
pub const HOLDS: &str = "Type";
pub const ACTION: &str = "Module and action";
pub const TAKES: &str = "Parameters";
pub const ANSWER: &str = "Response";
/// Label above the columns of a file.
pub const COLUMNS: &str = "Columns";
pub const OPTIONAL: &str = "optional";
