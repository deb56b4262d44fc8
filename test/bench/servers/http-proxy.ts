// A bare Node proxy: http-proxy-3 with a keep-alive agent.
import http from 'node:http'
import { createProxyServer } from 'http-proxy-3'

const [port, upstream = ''] = process.argv.slice(2)
const agent = new http.Agent({ keepAlive: true, maxSockets: 128 })
const proxy = createProxyServer({ target: upstream, agent })
proxy.on('error', () => process.exit(1))
http
  .createServer((request, response) => proxy.web(request, response))
  .listen(Number(port), '127.0.0.1', () => process.stdout.write('listening\n'))
