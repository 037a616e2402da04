//! The messages of a WebSocket. Used by programs and by the socket.

use bytes::Bytes;

/// A message: text or bytes. Pings, pongs and closes are the server's.
///
/// ```
/// use segue_http::websocket::Message;
/// assert_eq!(Message::from("hello").as_text(), Some("hello"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Bytes),
}

impl Message {
    /// The text, of a text message.
    ///
    /// ```
    /// use segue_http::websocket::Message;
    /// assert_eq!(Message::from(vec![0]).as_text(), None);
    /// ```
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Message::Text(text) => Some(text),
            Message::Binary(_) => None,
        }
    }

    /// The bytes, of either kind.
    ///
    /// ```
    /// use segue_http::websocket::Message;
    /// assert_eq!(Message::from("hello").into_bytes(), "hello");
    /// ```
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Message::Text(text) => text.into(),
            Message::Binary(bytes) => bytes,
        }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Message {
        Message::Text(text.into())
    }
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message::Text(text)
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Message {
        Message::Binary(bytes.into())
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Message {
        Message::Binary(bytes)
    }
}
