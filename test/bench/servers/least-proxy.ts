// Lower bound of a Node proxy: node:http and undici's dispatch; no framework, auth or log, all headers pass.
import http from 'node:http'
import { type Dispatcher, Pool } from 'undici'

const [port, upstream = ''] = process.argv.slice(2)
const pool = new Pool(upstream, { connections: 128, headersTimeout: 0, bodyTimeout: 0 })

class Handler implements Dispatcher.DispatchHandler {
  readonly #response: http.ServerResponse

  constructor(response: http.ServerResponse) {
    this.#response = response
  }
  onRequestStart(): void {}
  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: http.IncomingHttpHeaders,
  ): void {
    this.#response.writeHead(status, headers)
  }
  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#response.write(chunk)
  }
  onResponseEnd(): void {
    this.#response.end()
  }
  onResponseError(): void {
    this.#response.destroy()
  }
}

http
  .createServer((request, response) => {
    const path = request.url ?? '/'
    pool.dispatch({ path, method: 'GET', headers: { accept: '*/*' } }, new Handler(response))
  })
  .listen(Number(port), '127.0.0.1', () => process.stdout.write('listening\n'))
