package devtools

// Mend is what makes a message ready for the decoder.
var Mend = mend
