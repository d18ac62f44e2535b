//! The body of an answer.

use std::io;
use std::pin::Pin;
use std::task::{self, Poll};

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::client::Body;

/// A body that comes in pieces, and may break off.
pub(super) struct StreamBody(BoxStream<'static, io::Result<Vec<u8>>>);

impl StreamBody {
    pub(super) fn new(pieces: BoxStream<'static, io::Result<Vec<u8>>>) -> Self {
        Self(pieces)
    }

    /// Returns a body with all of the bytes in one piece.
    pub(super) fn whole(bytes: Vec<u8>) -> Self {
        Self(stream::iter([Ok(bytes)]).boxed())
    }
}

impl http_body::Body for StreamBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<io::Result<http_body::Frame<Self::Data>>>> {
        let frame = |piece: Vec<u8>| http_body::Frame::data(piece.into());
        self.0.poll_next_unpin(context).map(|piece| piece.map(|piece| piece.map(frame)))
    }
}
