import { once } from 'node:events'
import { Agent, createServer, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import replyFrom from '@fastify/reply-from'
import Fastify from 'fastify'
import { createProxyServer } from 'http-proxy-3'
import { startForwardingApp } from '../support/forwarding-app.ts'
import { describeForwarding } from './forwarding-contract.ts'

const OURS = {
  'a redirect passes': 'Location names addresses of the inside, and no route of the API redirects',
  'a page that is not JSON passes': 'every answer of the API is JSON',
  'the upstream’s own 401 passes': 'it speaks of the gateway’s standing, not of the caller’s key',
  'the upstream’s own error page passes': 'it may hold addresses and stacks',
  'any header of the upstream passes': 'only what somebody thought of passes',
  'any header of the client passes': 'the key stops here, and only what somebody thought of passes',
  'a body that only the close ends passes': 'cut short, it would look whole',
  'what was public stays public': 'every answer is one key’s own',
}

describeForwarding({ name: 'the gateway', start: url => startForwardingApp(url), exceptions: OURS })
describeForwarding({
  name: 'the gateway, sharing answers',
  start: url => startForwardingApp(url, {}, { shareAnswers: true }),
  exceptions: OURS,
})

describeForwarding({
  name: 'http-proxy-3',
  exceptions: {
    'a header of the client’s own connection goes no further': 'it copies all of them',
    'a header of the upstream’s own connection goes no further': 'it copies all of them',
    'an answer that breaks off never looks whole': 'it leaves the client waiting for ever',
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
    'a header of the upstream’s own connection goes no further': 'over HTTP/1.1 it copies all of them',
    'an upstream that is gone is a 502': 'it answers 500, with the address in its body',
  },
  async start(base) {
    const app = Fastify({ forceCloseConnections: true })
    app.register(replyFrom, { base, undici: { connections: 8 }, destroyAgent: true })
    app.get('/*', (request, reply) => reply.from(request.url, { retryDelay: () => null }))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { port: (app.server.address() as AddressInfo).port, stop: () => app.close() }
  },
})
