/** fault is the status and the body of an answer that says what is wrong; field is the one that it is wrong with. */
export const fault = (status, code, message, field = "") => [status, { error: { code, message, field } }];
