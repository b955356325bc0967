/** Once on a page that the server makes of many entries: what this browser can check, and where. */
export function SaidByServer() {
  return (
    <p class="small quiet said-by-server">
      The server makes this page from the record. To have your browser check the record itself, open
      a run, or <a href="#/log">pin the keys of the log</a>.
    </p>
  );
}
