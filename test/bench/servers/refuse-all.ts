// Lower bound of a rejection: a bare Node server that returns 401 with headers and body similar to the gateway's.
import http from 'node:http'

const [port] = process.argv.slice(2)
const BODY = '{"code":"key_invalid","error":"The API key is not valid"}'
const HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'www-authenticate': 'Bearer realm="postern", error="invalid_token"',
  'content-length': Buffer.byteLength(BODY),
}
http
  .createServer((_request, response) => response.writeHead(401, HEADERS).end(BODY))
  .listen(Number(port), '127.0.0.1', () => process.stdout.write('listening\n'))
