// Serves HTTP/1.1 and, on the second port, HTTP/2 without TLS. Writes a line for each request
// before it answers: node server.js DIR PORT TLS.
const fs = require('fs'), http = require('http'), http2 = require('http2');
const [dir, port, port2] = process.argv.slice(2);
const log = fs.openSync(dir + '/log', 'a');
let seen = 0;

function serve(request, response) {
  let received = 0;
  request.on('data', part => { received += part.length; });
  request.on('end', () => {
    seen++;
    const cut = request.url.startsWith('/cut') && seen % 20 === 0;
    const line = {
      request: { method: request.method, proto: 'HTTP/' + request.httpVersion },
      status: cut ? 0 : 200, size: cut || request.method === 'HEAD' ? 0 : 5, received,
    };
    fs.writeSync(log, JSON.stringify(line) + '\n');
    if (cut && response.stream) response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
    else if (cut) request.socket.resetAndDestroy();
    else answer(request, response);
  });
}

const answers = new WeakMap(); // by connection

function answer(request, response) {
  const connection = response.stream ? response.stream.session : request.socket;
  const count = (answers.get(connection) || 0) + 1;
  answers.set(connection, count);
  response.setHeader('Content-Length', 5);
  if (request.url === '/closing' && count === 100) {
    if (response.stream) connection.close(); // GOAWAY
    else response.on('finish', () => connection.end()); // does not say so
  }
  response.end(request.method === 'HEAD' ? undefined : 'hello');
}

const server = http.createServer(serve);
server.keepAliveTimeout = 60000;
server.listen(port, '127.0.0.1');
http2.createServer(serve).listen(port2, '127.0.0.1');
