//! What must hold of the document.
