import { expect, test } from 'vitest'
import type { UpstreamClient } from '../../../src/upstream/pool/connection.ts'
import { UpstreamClients } from '../../../src/upstream/pool/dispatcher.ts'
import type { UpstreamExchange } from '../../../src/upstream/pool/exchange.ts'

class FakeClient {
  isConnected = true
  destroyed = false
  readonly closed = Promise.withResolvers<void>()
  close(): Promise<void> {
    return this.closed.promise
  }
  async destroy(): Promise<void> {
    this.destroyed = true
  }
}

function start() {
  const made: FakeClient[] = []
  const clients = new UpstreamClients(() => {
    const client = new FakeClient()
    made.push(client)
    // It has all that `UpstreamClients` uses.
    return client as unknown as UpstreamClient
  })
  return { clients, made }
}

test('a client that was given back is taken again, the one used last first, a broken one last', () => {
  const { clients, made } = start()
  const [a, b, c] = [clients.take(), clients.take(), clients.take()]
  clients.giveBack(a, false)
  clients.giveBack(b, false)
  clients.giveBack(c, true)
  expect([clients.take(), clients.take(), clients.take()]).toEqual([b, a, c])
  expect(made).toHaveLength(3)
})

test('open and free connections are counted, not clients without one', () => {
  const { clients, made } = start()
  const [a, b] = [clients.take(), clients.take()]
  clients.take()
  clients.giveBack(a, false)
  clients.giveBack(b, true)
  expect(clients.stats()).toEqual({ open: 3, free: 2 })
  for (const client of made.slice(1)) client.isConnected = false
  expect(clients.stats()).toEqual({ open: 1, free: 1 })
})

test('a client for one exchange closes after it, and is never taken for another', async () => {
  const { clients, made } = start()
  const sentOn: unknown[] = []
  const sendOn = (...args: unknown[]) => void sentOn.push(args)
  // The clients use nothing else of it.
  clients.carryOnce({ sendOn } as unknown as UpstreamExchange)
  const [once] = made
  expect([sentOn, clients.stats()]).toEqual([[[once, true]], { open: 1, free: 0 }])
  clients.giveBack(once as unknown as UpstreamClient, false)
  expect(clients.take()).not.toBe(once)
  once?.closed.resolve()
  await new Promise(setImmediate)
  expect(clients.stats()).toEqual({ open: 1, free: 0 })
})

test('all clients are destroyed together, free or not', () => {
  const { clients, made } = start()
  clients.giveBack(clients.take(), false)
  clients.take()
  clients.take()
  clients.destroy()
  expect(made.map(({ destroyed }) => destroyed)).toEqual([true, true])
})
