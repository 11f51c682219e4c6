// A site that sells tickets, for the story of an agent and a person in one browser. Chromium takes every loopback
// address for the sandbox's own, so the site has an address for examples (RFC 5737), which is nobody's. What listens
// is on loopback, and is the proxy too by which the program reaches that address: no name or network is needed.
import { createServer } from "node:http";
import { atEnd } from "./program.mjs";

const HOST = "203.0.113.10";

/** What the person signs in with; only the site and the person know it. */
export const PASSWORD = "gannet-Quay-4471-harbour";
/** What is in the file that is downloaded. */
export const TICKET = "Harbour Tickets\nKim Holm, 2 seats, 14C and 14D\n";

const page = (title, body) => `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><style>
body { margin: 0; background: #f4f1ea; color: #1d2b36; font: 17px/1.5 sans-serif }
header { padding: 18px 40px; background: #17384d; color: #fff; font-size: 22px; font-weight: 700 }
main { max-width: 640px; margin: 36px auto; padding: 28px 36px; background: #fff; border: 1px solid #ded8ca; border-radius: 10px }
label { display: block; margin: 14px 0 4px; font-weight: 600 }
input, select { box-sizing: border-box; width: 100%; padding: 9px; border: 1px solid #9aa7b0; border-radius: 6px; font: inherit }
button, .button { display: inline-block; margin-top: 20px; padding: 10px 22px; border: 0; border-radius: 6px; background: #c4502e; color: #fff; font: inherit; font-weight: 600; text-decoration: none; cursor: pointer }
</style><header>Harbour Tickets</header><main>${body}</main></html>`;

const pages = {
  "/": page("Harbour Tickets", `<h1>The evening ferry</h1><form action="/order"><label for="name">Name</label><input id="name" name="name" required>
    <label for="seats">Seats</label><select id="seats" name="seats"><option>1</option><option>2</option><option>3</option></select>
    <button id="continue">Continue</button></form>`),
  "/order": page("Your order", `<h1>Your order</h1><p id="for"></p><p>Seats: <b id="seat">none yet</b></p>
    <button id="choose">Choose seats</button> <button id="reserve">Reserve</button><p id="done" role="status"></p>
    <script>
      const q = new URLSearchParams(location.search);
      document.getElementById("for").textContent = q.get("seats") + " for " + q.get("name");
      document.getElementById("choose").onclick = () => open("/seats", "seats");
      addEventListener("message", (e) => { document.getElementById("seat").textContent = e.data; });
      document.getElementById("reserve").onclick = () => {
        if (!confirm("Reserve " + document.getElementById("seat").textContent + " for " + q.get("name") + "?")) return;
        document.getElementById("done").innerHTML = 'Reserved. <a class="button" id="sign-in" href="/sign-in">Sign in for the tickets</a>';
      };
    </script>`),
  "/seats": page("Seats", `<h1>Seats</h1><p>Two beside each other:</p><button id="row-14">14C and 14D</button>
    <script>document.getElementById("row-14").onclick = () => { opener.postMessage("14C and 14D", "*"); close(); };</script>`),
  "/sign-in": page("Sign in", `<h1>Sign in</h1><form method="post" action="/sign-in"><label for="password">Password of Kim Holm</label>
    <input id="password" name="password" type="password" autocomplete="current-password"><button>Sign in</button></form>
    <label for="password" style="position:fixed;inset:45% 0 0 0;margin:0"></label>`),
  "/tickets": page("Your tickets", `<h1>Your tickets</h1><p>Signed in as Kim Holm.</p><a class="button" id="download" href="/ticket.txt">Download the ticket</a>`),
};

/** openSite serves the pages until the end of the test. It returns its address, what lets a sandbox reach it, and who signed in. */
export async function openSite() {
  const seen = { signedIn: 0, refused: 0 };
  const server = createServer(async (req, res) => {
    const { pathname } = new URL(req.url, "http://x");
    if (req.method === "POST" && pathname === "/sign-in") {
      let body = "";
      for await (const chunk of req) body += chunk;
      const right = new URLSearchParams(body).get("password") === PASSWORD;
      seen[right ? "signedIn" : "refused"]++;
      return res.writeHead(303, { Location: right ? "/tickets" : "/sign-in", "Set-Cookie": "known=yes; HttpOnly" }).end();
    }
    if (pathname === "/ticket.txt") {
      return res.writeHead(200, { "Content-Type": "text/plain", "Content-Disposition": 'attachment; filename="ticket.txt"' }).end(TICKET);
    }
    if (pathname === "/tickets" && !/known=yes/.test(req.headers.cookie ?? "")) return res.writeHead(303, { Location: "/sign-in" }).end();
    const body = pages[pathname];
    res.writeHead(body ? 200 : 404, { "Content-Type": "text/html; charset=utf-8" }).end(body ?? "");
  });
  server.on("connect", (req, socket) => {
    if (req.url !== `${HOST}:80`) return socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    server.emit("connection", socket); // what follows is asked of the site
  });
  await new Promise((done, failed) => server.once("error", failed).listen(0, "127.0.0.1", done));
  atEnd(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  return { url: `http://${HOST}`, config: `[egress]\nupstream = "http://127.0.0.1:${server.address().port}"\n`, seen };
}
