/** wireTo opens a WebSocket to a path of the server of this page. A browser sends no header of ours along: the token goes as a subprotocol. */
export function wireTo(location: { protocol: string; host: string }, token: string, path: string): WebSocket {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const ws = new WebSocket(`${scheme}://${location.host}/api/v1${path}`, ["glovebox.v1", `token.${token}`]);
  ws.binaryType = "arraybuffer";
  return ws;
}
