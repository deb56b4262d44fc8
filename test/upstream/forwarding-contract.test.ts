import { once } from 'node:events'
import { Agent, createServer, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import replyFrom from '@fastify/reply-from'
import Fastify from 'fastify'
import { createProxyServer } from 'http-proxy-3'
import { startForwardingApp } from '../support/forwarding-app.ts'
import { describeForwarding, HANGS } from './forwarding-contract.ts'

const EXCEPTIONS = {
  'a redirect passes': {
    reason: 'Location can reveal internal addresses, and no route of the API redirects',
    failure: "expected undefined to be '/other'",
  },
  'a page that is not JSON passes': {
    reason: 'every response of the API is JSON',
    failure: /^expected '\{"code":"upstream_error".* to be '<p>'/,
  },
  'the upstream’s own 401 passes': {
    reason: 'it concerns the gateway’s credentials, not the client’s key',
    failure: 'expected 502 to be 401',
  },
  'the upstream’s own error page passes': {
    reason: 'it may reveal addresses and stacks',
    failure: /^expected '\{"code":"upstream_error".* to be '\{"stack":/,
  },
  'any header of the upstream passes': {
    reason: 'only allowed headers pass',
    failure: "expected undefined to be 'nginx'",
  },
  'any header of the client passes': {
    reason: 'only allowed headers pass, and never the key',
    failure: "expected undefined to be 'Bearer x'",
  },
  'a body that ends with its connection passes': {
    reason: 'a truncated one looks complete',
    failure: 'expected 502 to be 200',
  },
  'a public Cache-Control stays public': {
    reason: 'every response belongs to one key',
    failure: "expected 'private, max-age=5' to be 'public, max-age=5'",
  },
}

describeForwarding({ name: 'the gateway', start: url => startForwardingApp(url), exceptions: EXCEPTIONS })
describeForwarding({
  name: 'the gateway with coalescing',
  start: url => startForwardingApp(url, {}, { coalesce: true }),
  exceptions: EXCEPTIONS,
})

describeForwarding({
  name: 'http-proxy-3',
  exceptions: {
    'connection headers of the client are not forwarded': {
      reason: 'it copies all of them',
      failure: "expected [ 'x-mine', 'keep-alive', 'te' ] to deeply equal []",
    },
    'connection headers of the upstream do not reach the client': {
      reason: 'it copies all of them',
      failure: /to not have property "x-theirs"$/,
    },
    'a truncated response never looks complete': { reason: 'its client waits forever', failure: HANGS },
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
    'connection headers of the upstream do not reach the client': {
      reason: 'over HTTP/1.1 it copies all of them',
      failure: /to not have property "x-theirs"$/,
    },
    'an unreachable upstream is a 502': {
      reason: 'it responds with 500 and the address in the body',
      failure: 'expected 500 to be 502',
    },
  },
  async start(base) {
    const app = Fastify({ forceCloseConnections: true })
    app.register(replyFrom, { base, undici: { connections: 8 }, destroyAgent: true })
    app.get('/*', (request, reply) => reply.from(request.url, { retryDelay: () => null }))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { port: (app.server.address() as AddressInfo).port, stop: () => app.close() }
  },
})
