import { once } from 'node:events'
import { Agent, createServer, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import replyFrom from '@fastify/reply-from'
import Fastify from 'fastify'
import { createProxyServer } from 'http-proxy-3'
import { startForwardingApp } from '../support/forwarding-app.ts'
import { describeForwarding } from './forwarding-contract.ts'

const EXCEPTIONS = {
  'a redirect passes': 'Location can reveal internal addresses, and no route of the API redirects',
  'a page that is not JSON passes': 'every response of the API is JSON',
  'the upstream’s own 401 passes': 'it concerns the gateway’s credentials, not the client’s key',
  'the upstream’s own error page passes': 'it may reveal addresses and stacks',
  'any header of the upstream passes': 'only allowed headers pass',
  'any header of the client passes': 'only allowed headers pass, and never the key',
  'a body that ends with its connection passes': 'a truncated one looks complete',
  'a public Cache-Control stays public': 'every response belongs to one key',
}

describeForwarding({ name: 'the gateway', start: url => startForwardingApp(url), exceptions: EXCEPTIONS })
describeForwarding({
  name: 'the gateway with coalescing',
  start: url => startForwardingApp(url, {}, { shareAnswers: true }),
  exceptions: EXCEPTIONS,
})

describeForwarding({
  name: 'http-proxy-3',
  exceptions: {
    'connection headers of the client are not forwarded': 'it copies all of them',
    'connection headers of the upstream do not reach the client': 'it copies all of them',
    'a truncated response never looks complete': 'its client waits forever',
  },
  async start(target) {
    const agent = new Agent({ keepAlive: true })
    const proxy = createProxyServer({ target, agent })
    proxy.on('error', (_error, _request, response) => {
      if (response instanceof ServerResponse && !response.headersSent) response.writeHead(502).end()
      else response?.destroy()
    })
    const server = createServer((request, response) => proxy.web(request, response))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return {
      port: (server.address() as AddressInfo).port,
      async stop() {
        agent.destroy()
        server.closeAllConnections()
        await new Promise(resolve => server.close(resolve))
      },
    }
  },
})

describeForwarding({
  name: 'reply-from',
  exceptions: {
    'connection headers of the upstream do not reach the client': 'over HTTP/1.1 it copies all of them',
    'an unreachable upstream is a 502': 'it responds with 500 and the address in the body',
  },
  async start(base) {
    const app = Fastify({ forceCloseConnections: true })
    app.register(replyFrom, { base, undici: { connections: 8 }, destroyAgent: true })
    app.get('/*', (request, reply) => reply.from(request.url, { retryDelay: () => null }))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { port: (app.server.address() as AddressInfo).port, stop: () => app.close() }
  },
})
