import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { neverReloads } from '../../../src/config/reloadable.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import type { UpstreamSettings } from '../../../src/upstream/pool/connection.ts'
import { GRACE_MS } from '../../../src/upstream/pool/connection-shares.ts'
import { type DispatcherDeps, UpstreamDispatcher } from '../../../src/upstream/pool/dispatcher.ts'
import { DEFAULT_SETTINGS } from '../../support/forwarding-app.ts'
import { freePort } from '../../support/free-port.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../../support/scripted-upstream.ts'
import { silentLogger } from '../../support/silent-logger.ts'

let upstream: ScriptedUpstream
let dispatcher: UpstreamDispatcher
const clock = new ManualClock()
const metrics = createMetrics()

/** A pool without a gateway. The upstream responds when the test does. */
async function start(settings: Partial<UpstreamSettings> = {}) {
  upstream = await startScriptedUpstream(() => {})
  dispatcher = poolOf({ url: upstream.url, ...settings })
}

function poolOf(
  settings: Partial<UpstreamSettings> & { readonly url: string },
  deps: Partial<DispatcherDeps> = {},
): UpstreamDispatcher {
  return new UpstreamDispatcher({
    settings: { ...DEFAULT_SETTINGS, ...settings },
    metrics,
    clock,
    logger: silentLogger,
    onReload: neverReloads,
    ...deps,
  })
}

afterEach(async () => {
  dispatcher.destroy()
  await upstream.stop()
  metrics.registry.resetMetrics()
})

/** Sends a request of a workspace. Its outcome is the status with the body, or the kind of its failure. */
function send(workspaceId = 'ws_1', waitedBeforeMs?: number) {
  const { promise: outcome, resolve } = Promise.withResolvers<string>()
  let body = ''
  const exchange = dispatcher.send(
    { workspaceId, path: `/${workspaceId}`, headers: {} },
    {
      onHead: response => ({
        write: chunk => {
          body += chunk
          return 'continue'
        },
        end: () => resolve(`${response.statusCode} ${body}`),
        fail: failure => resolve(`lost ${failure?.kind}`),
      }),
      onFailure: failure => resolve(failure.kind),
    },
    waitedBeforeMs,
  )
  return { exchange, outcome }
}
/** The outcome of a request, or that it has none yet. */
const outcomeOf = ({ outcome }: ReturnType<typeof send>) =>
  Promise.race([outcome, new Promise(resolve => setImmediate(resolve, 'pending'))])
const outcomes = (sent: readonly ReturnType<typeof send>[]) => Promise.all(sent.map(({ outcome }) => outcome))
const respond = (...numbers: number[]) => {
  for (const number of numbers) upstream.requests[number]?.send(json(`${number}`))
}

/** The series of a metric that are not 0, by their last label. */
async function shown(
  name: 'upstreamConnections' | 'upstreamQueued' | 'upstreamCircuit' | 'upstreamAddresses',
) {
  const { values } = await metrics[name].get()
  const series = values.filter(({ value }) => value !== 0)
  return Object.fromEntries(series.map(({ labels, value }) => [String(Object.values(labels).at(-1)), value]))
}

test('a connection is used again, and counted while it is open', async () => {
  await start()
  for (const number of [0, 1]) {
    const { outcome } = send()
    await upstream.received(number + 1)
    expect(await shown('upstreamConnections')).toEqual({ open: 1 })
    respond(number)
    expect(await outcome).toBe(`200 ${number}`)
  }
  expect(await shown('upstreamConnections')).toEqual({ open: 1, free: 1 })
  expect(upstream.sockets).toHaveLength(1)
})

test('more requests than connections wait, as many as the queue holds, in order', async () => {
  await start({ connections: 1, queue: { maxRequests: 2, maxWaitMs: 60_000 } })
  const sent = Array.from({ length: 4 }, () => send())
  expect(await sent[3]?.outcome).toBe('queue_full')
  expect(await shown('upstreamQueued')).toEqual({ default: 2 })
  for (const number of [0, 1, 2]) {
    await upstream.received(number + 1)
    respond(number)
    expect(await sent[number]?.outcome).toBe(`200 ${number}`)
  }
  expect(await shown('upstreamQueued')).toEqual({})
  expect(upstream.sockets).toHaveLength(1)
})

test('a request that waits longer than the limit is rejected, and the one in flight goes on', async () => {
  await start({ connections: 1, queue: { maxRequests: 9, maxWaitMs: 500 } })
  const sent = [send(), send()]
  await upstream.received(1)
  clock.advance(500)
  expect(await sent[1]?.outcome).toBe('queue_full')
  respond(0)
  expect(await sent[0]?.outcome).toBe('200 0')
  expect(upstream.requests).toHaveLength(1)
})

test('a request that is aborted in the queue is never sent', async () => {
  await start({ connections: 1 })
  const sent = [send(), send(), send()]
  await upstream.received(1)
  sent[1]?.exchange.abort()
  expect(await shown('upstreamQueued')).toEqual({ default: 1 })
  respond(0)
  await upstream.received(2)
  respond(1)
  expect(await sent[2]?.outcome).toBe('200 1')
  expect(upstream.requests).toHaveLength(2)
})

test('a full queue makes room for another workspace, and a workspace below its share gets a connection', async () => {
  await start({ connections: 4, queue: { maxRequests: 2, maxWaitMs: 60_000 } })
  const greedy = Array.from({ length: 6 }, () => send('greedy'))
  await upstream.received(4)
  const honest = send('honest')
  expect(await greedy[5]?.outcome).toBe('preempted')
  clock.advance(GRACE_MS)
  // One that is in flight is aborted, the youngest first.
  expect(await Promise.race(greedy.slice(0, 4).map(({ outcome }) => outcome))).toBe('preempted')
  await upstream.received(5)
  expect(upstream.requests[4]?.target).toBe('/honest')
  respond(4)
  expect(await honest.outcome).toBe('200 4')
})

test('the circuit opens after failures in a row, admits one probe at a time, and closes after its success', async () => {
  upstream = await startScriptedUpstream(() => {})
  const port = await freePort()
  dispatcher = poolOf({ url: `http://127.0.0.1:${port}`, circuit: { failures: 2, openMs: 500 } })
  for (const _ of [1, 2]) expect(await send().outcome).toBe('refused')
  expect([await send().outcome, await shown('upstreamCircuit')]).toEqual(['circuit_open', { open: 1 }])
  clock.advance(500)
  expect(await shown('upstreamCircuit')).toEqual({ half_open: 1 })
  const server = await startScriptedUpstream(() => {}, undefined, { port })
  try {
    const first = send()
    expect(await send().outcome).toBe('circuit_open')
    // A probe whose client disconnects says nothing: the next one is admitted.
    await server.received(1)
    first.exchange.abort()
    const second = await probeAfter(first)
    await server.received(2)
    server.requests[1]?.send(json('"well"'))
    expect(await second.outcome).toBe('200 "well"')
    expect(await shown('upstreamCircuit')).toEqual({ closed: 1 })
  } finally {
    await server.stop()
  }
})

/** The first request that the circuit admits. The aborted one ends in a later turn. */
async function probeAfter({ exchange }: ReturnType<typeof send>): Promise<ReturnType<typeof send>> {
  while (exchange.client !== null) await new Promise(setImmediate)
  return send()
}

test('an error response is no failure of the connection, and does not open the circuit', async () => {
  await start({ circuit: { failures: 1, openMs: 500 } })
  const sent = send()
  await upstream.received(1)
  upstream.requests[0]?.send('HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n')
  expect(await sent.outcome).toBe('500 ')
  expect(await shown('upstreamCircuit')).toEqual({ closed: 1 })
})

test('a server that does not respond in time opens the circuit, and its address is avoided', async () => {
  await start({ circuit: { failures: 1, openMs: 500 }, headersTimeoutMs: 300 })
  const sent = send()
  await upstream.received(1)
  clock.advance(300)
  expect(await sent.outcome).toBe('headers_timeout')
  expect([await shown('upstreamCircuit'), await shown('upstreamAddresses')]).toEqual([
    { open: 1 },
    { avoided: 1 },
  ])
})

test('requests that take too long open no circuit for others while the upstream answers these', async () => {
  await start({ circuit: { failures: 2, openMs: 500 }, headersTimeoutMs: 300 })
  const slow = [send('slow'), send('slow'), send('slow')]
  await upstream.received(3)
  clock.advance(200)
  const quick = send('quick')
  await upstream.received(4)
  respond(3)
  expect(await quick.outcome).toBe('200 3')
  clock.advance(100)
  expect(await outcomes(slow)).toEqual(['headers_timeout', 'headers_timeout', 'headers_timeout'])
  expect([await shown('upstreamCircuit'), await dispatcher.health()]).toEqual([{ closed: 1 }, 'ok'])
  // Since then it has answered nothing.
  const later = [send('quick'), send('slow')]
  await upstream.received(6)
  clock.advance(300)
  expect(await outcomes(later)).toEqual(['headers_timeout', 'headers_timeout'])
  expect([await shown('upstreamCircuit'), await dispatcher.health()]).toEqual([{ open: 1 }, 'down'])
})

test('requests of one workspace that take too long do not take a server from others, which it answers', async () => {
  await start()
  const other = await startScriptedUpstream(() => {})
  onTestFinished(() => other.stop())
  const addresses = [upstream, other].map(({ url }) => new URL(url).host)
  dispatcher.destroy()
  dispatcher = poolOf({ url: upstream.url, addresses, headersTimeoutMs: 300 })
  const slow = [send('slow'), send('slow')]
  await Promise.all([upstream.received(1), other.received(1)])
  clock.advance(200)
  const quick = send('quick')
  await upstream.received(2)
  respond(1)
  expect(await quick.outcome).toBe('200 1')
  clock.advance(100)
  expect(await outcomes(slow)).toEqual(['headers_timeout', 'headers_timeout'])
  // The other server answered no one meanwhile.
  expect(await shown('upstreamAddresses')).toEqual({ usable: 1, avoided: 1 })
  const next = send('quick')
  await upstream.received(3)
  respond(2)
  expect(await next.outcome).toBe('200 2')
  const late = send('quick')
  await upstream.received(4)
  clock.advance(300)
  expect(await late.outcome).toBe('headers_timeout')
  expect(await shown('upstreamAddresses')).toEqual({ avoided: 2 })
})

test('a body that stalls does neither', async () => {
  await start({ circuit: { failures: 1, openMs: 500 }, bodyIdleTimeoutMs: 300, totalTimeoutMs: 10_000 })
  const sent = send()
  await upstream.received(1)
  upstream.requests[0]?.send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf')
  while (sent.exchange.statusCode === 0) await new Promise(setImmediate)
  clock.advance(10_000)
  expect(await sent.outcome).toBe('lost total_timeout')
  expect([await shown('upstreamCircuit'), await shown('upstreamAddresses')]).toEqual([
    { closed: 1 },
    { usable: 1 },
  ])
})

describe('whether the upstream can be reached', () => {
  test('is found out by a connection, if no request has shown it in the last five seconds', async () => {
    await start()
    expect(await dispatcher.health()).toBe('ok')
    await upstream.disconnected(1)
    clock.advance(4_999)
    expect(await dispatcher.health()).toBe('ok')
    await upstream.stop()
    expect(await dispatcher.health()).toBe('ok')
    clock.advance(1)
    expect(await dispatcher.health()).toBe('down')
  })

  test('is what the last request has shown', async () => {
    await start()
    const answered = send()
    await upstream.received(1)
    respond(0)
    expect(await answered.outcome).toBe('200 0')
    expect(await dispatcher.health()).toBe('ok')
    expect(upstream.sockets).toHaveLength(1)
    await upstream.stop()
    expect(await send().outcome).toBe('refused')
    expect(await dispatcher.health()).toBe('down')
  })
})

test('a stale connection is replaced, and its request sent again once', async () => {
  await start()
  const first = send()
  await upstream.received(1)
  respond(0)
  await first.outcome
  upstream.script = ({ number, socket, send: reply }) => {
    if (number === 1) socket.destroy()
    else reply(json('"again"'))
  }
  expect(await send().outcome).toBe('200 "again"')
  expect(upstream.requests.map(({ connection }) => connection)).toEqual([0, 0, 1])
  // It is asked to close the connection that was made for one request.
  expect(upstream.requests[2]?.headers.get('connection')).toBe('close')
  const { values } = await metrics.upstreamRetries.get()
  expect(values.filter(({ value }) => value > 0).map(({ labels }) => labels['outcome'])).toEqual(['success'])
  await upstream.disconnected(2)
  expect(await send().outcome).toBe('200 "again"')
})

test('the time that a client has waited before counts for the whole response', async () => {
  await start({ totalTimeoutMs: 1000 })
  const sent = send('ws_1', 900)
  await upstream.received(1)
  clock.advance(100)
  expect(await sent.outcome).toBe('total_timeout')
})

test('a shutdown ends requests in flight, those that wait, and later ones', async () => {
  await start({ connections: 1 })
  const sent = [send(), send()]
  await upstream.received(1)
  dispatcher.destroy()
  expect(await outcomes(sent)).toEqual(['reset', 'reset'])
  const late = send()
  clock.advance(60_000)
  expect(await late.outcome).not.toMatch(/^\d/)
  expect(upstream.requests).toHaveLength(1)
})

/** Deadlines are checked when the test says so, and at no other time. */
function sweepByHand() {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  return (ms = 0) => {
    clock.advance(ms)
    vi.advanceTimersByTime(25)
  }
}

describe('the timer of all deadlines', () => {
  test('checks a request in the queue until it has waited too long, and stops when none is left', async () => {
    const sweep = sweepByHand()
    await start({ connections: 1, queue: { maxRequests: 9, maxWaitMs: 500 } })
    const [first, second] = [send(), send()]
    await upstream.received(1)
    for (const ms of [0, 250, 249]) {
      sweep(ms)
      expect(await outcomeOf(second)).toBe('pending')
    }
    sweep(1)
    expect(await outcomeOf(second)).toBe('queue_full')
    respond(0)
    expect(await first.outcome).toBe('200 0')
    for (const ms of [0, 0]) sweep(ms)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('stops when a request was aborted in the queue; the next one needs no timer to be sent', async () => {
    const sweep = sweepByHand()
    await start({ connections: 1 })
    const sent = [send(), send(), send()]
    await upstream.received(1)
    sent[1]?.exchange.abort()
    respond(0)
    await upstream.received(2)
    respond(1)
    expect(await sent[2]?.outcome).toBe('200 1')
    for (const ms of [0, 0]) sweep(ms)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('stops with a shutdown, also while requests are in flight', async () => {
    sweepByHand()
    await start()
    const sent = send()
    await upstream.received(1)
    expect(vi.getTimerCount()).toBe(1)
    dispatcher.destroy()
    expect(vi.getTimerCount()).toBe(0)
    expect(await sent.outcome).toBe('reset')
  })
})

test('after a shutdown no connection is opened', async () => {
  const sweep = sweepByHand()
  await start({ headersTimeoutMs: 100_000, totalTimeoutMs: 100_000 })
  dispatcher.destroy()
  const late = send()
  sweep(59_999)
  expect(await outcomeOf(late)).toBe('pending')
  sweep(1)
  expect(await outcomeOf(late)).toBe('queue_full')
  expect(upstream.sockets).toHaveLength(0)
})

describe('the probe of a circuit', () => {
  /** After one request that got no response in time. */
  async function startHalfOpen() {
    const sweep = sweepByHand()
    await start({ headersTimeoutMs: 300, circuit: { failures: 1, openMs: 50 } })
    const late = send()
    await upstream.received(1)
    sweep(300)
    expect(await late.outcome).toBe('headers_timeout')
    clock.advance(50)
  }

  test('may wait for a connection; if its client disconnects there, the next request is the probe', async () => {
    const sweep = sweepByHand()
    await start({ connections: 1, headersTimeoutMs: 300, circuit: { failures: 1, openMs: 50 } })
    const late = send()
    await upstream.received(1)
    clock.advance(200)
    const waiting = send()
    sweep(100)
    expect(await late.outcome).toBe('headers_timeout')
    await upstream.received(2)
    clock.advance(50)
    send().exchange.abort()
    const probe = send()
    expect(await outcomeOf(probe)).toBe('pending')
    respond(1)
    expect(await waiting.outcome).toBe('200 1')
    await upstream.received(3)
    respond(2)
    expect(await probe.outcome).toBe('200 2')
  })

  test('of one workspace that takes long keeps no other out', async () => {
    await startHalfOpen()
    const slow = send('slow')
    expect([await outcomeOf(send('slow')), await outcomeOf(slow)]).toEqual(['circuit_open', 'pending'])
    await upstream.received(2)
    const quick = send('quick')
    await upstream.received(3)
    respond(2)
    expect(await quick.outcome).toBe('200 2')
    expect(await shown('upstreamCircuit')).toEqual({ closed: 1 })
    respond(1)
    expect(await slow.outcome).toBe('200 1')
  })

  test('is sent after the set time, however many earlier requests fail meanwhile', async () => {
    const sweep = sweepByHand()
    await start({ headersTimeoutMs: 300, circuit: { failures: 1, openMs: 50 } })
    const first = send('slow')
    await upstream.received(1)
    clock.advance(40)
    const second = send('slow')
    await upstream.received(2)
    sweep(260)
    expect(await first.outcome).toBe('headers_timeout')
    sweep(40)
    expect(await second.outcome).toBe('headers_timeout')
    expect(await shown('upstreamCircuit')).toEqual({ open: 1 })
    clock.advance(10)
    expect(await shown('upstreamCircuit')).toEqual({ half_open: 1 })
    const probe = send('quick')
    await upstream.received(3)
    respond(2)
    expect(await probe.outcome).toBe('200 2')
  })

  test('is one of four at most, each of another workspace', async () => {
    await startHalfOpen()
    const sent = ['a', 'b', 'c', 'd', 'e'].map(workspaceId => send(workspaceId))
    const [, , , last, tooMany] = sent
    if (last === undefined || tooMany === undefined) throw new Error('Five were sent')
    expect([await outcomeOf(last), await outcomeOf(tooMany)]).toEqual(['pending', 'circuit_open'])
  })

  test('stays the only one while a response that began before it ends', async () => {
    const sweep = sweepByHand()
    await start({ headersTimeoutMs: 300, circuit: { failures: 1, openMs: 50 } })
    const streaming = send()
    await upstream.received(1)
    upstream.requests[0]?.send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha')
    while (streaming.exchange.statusCode === 0) await new Promise(setImmediate)
    const late = send()
    sweep(300)
    expect(await late.outcome).toBe('headers_timeout')
    clock.advance(50)
    const probe = send()
    upstream.requests[0]?.send('lf')
    expect(await streaming.outcome).toBe('200 half')
    expect([await outcomeOf(send()), await outcomeOf(probe)]).toEqual(['circuit_open', 'pending'])
  })
})

describe('a retry', () => {
  const END = Symbol('the connection closes')
  /** The first request leaves an idle connection; the second meets it closed, and is sent again. */
  async function retry(answer: string, end?: typeof END) {
    await start()
    upstream.script = ({ number, socket, send: reply }) => {
      if (number === 0) reply(json('0'))
      else if (number === 1) socket.destroy()
      else if (end === END) socket.end(answer)
      else reply(answer)
    }
    expect(await send().outcome).toBe('200 0')
    const outcome = await send().outcome
    const { values } = await metrics.upstreamRetries.get()
    const counts = values.filter(({ value }) => value > 0)
    return [outcome, counts.map(({ labels, value }) => `${value} ${labels['outcome']}`)]
  }

  test('that gets no response counts as failed', async () => {
    expect(await retry('', END)).toEqual(['reset', ['1 failure']])
  })

  test('whose response breaks off counts as successful: the connection was not stale', async () => {
    expect(await retry('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', END)).toEqual([
      ...['lost truncated', ['1 success']],
    ])
  })

  test('is not counted where a request was sent once', async () => {
    await start()
    upstream.script = ({ socket }) => socket.destroy()
    expect(await send().outcome).toBe('reset')
    const { values } = await metrics.upstreamRetries.get()
    expect(values.filter(({ value }) => value > 0)).toEqual([])
  })

  test('leaves the broken connection for later: the next request uses one that is open', async () => {
    await start()
    const sent = [send(), send()]
    await upstream.received(2)
    for (const [number, { outcome }] of sent.entries()) {
      respond(number)
      expect(await outcome).toBe(`200 ${number}`)
    }
    upstream.script = ({ number, socket, send: reply }) => {
      if (number === 2) socket.destroy()
      else reply(json(`${number}`))
    }
    // The connection used last breaks; that of the first request stays open.
    expect([await send().outcome, await send().outcome]).toEqual(['200 3', '200 4'])
    const [first, last, broken, retried, next] = upstream.requests.map(({ connection }) => connection)
    expect([broken, retried, next]).toEqual([last, 2, first])
  })
})

describe('a connection that another workspace is owed', () => {
  const LONG = { headersTimeoutMs: 50_000, totalTimeoutMs: 50_000 }
  /** Each is younger than the one before. */
  const sendAll = (workspaces: readonly string[]) =>
    workspaces.map(workspace => {
      clock.advance(1)
      return send(workspace)
    })
  const outcomesNow = (sent: readonly ReturnType<typeof send>[]) => Promise.all(sent.map(outcomeOf))

  test('is taken from the workspace above its share, one for each that waits', async () => {
    const sweep = sweepByHand()
    await start({ ...LONG, connections: 8 })
    const greedy = sendAll(Array(5).fill('greedy'))
    const modest = sendAll(['modest', 'modest', 'other'])
    await upstream.received(8)
    const waiting = sendAll(['third', 'fourth'])
    sweep(GRACE_MS)
    await upstream.received(10)
    expect(await outcomesNow([...modest, ...waiting])).toEqual(Array(5).fill('pending'))
    expect(await outcomesNow(greedy)).toEqual([...Array(3).fill('pending'), 'preempted', 'preempted'])
    const targets = upstream.requests.slice(8).map(({ target }) => target)
    expect(targets.toSorted()).toEqual(['/fourth', '/third'])
  })

  test('stays in reserve for others, and is used for the workspace above its share after ten seconds', async () => {
    const sweep = sweepByHand()
    await start({ ...LONG, connections: 4 })
    const greedy = sendAll(Array(5).fill('greedy'))
    await upstream.received(4)
    const [honest] = sendAll(['honest'])
    sweep(GRACE_MS)
    await upstream.received(5)
    respond(4)
    expect(await honest?.outcome).toBe('200 4')
    sweep(9_999)
    expect(await shown('upstreamQueued')).toEqual({ default: 1 })
    sweep(1)
    expect(await shown('upstreamQueued')).toEqual({})
    await upstream.received(6)
    respond(5)
    expect(await greedy[4]?.outcome).toBe('200 5')
  })

  test('cannot be taken while all are being opened', async () => {
    const sweep = sweepByHand()
    await start()
    const neverResolved = { resolve: () => new Promise<never>(() => {}) }
    dispatcher = poolOf({ ...LONG, url: 'http://files.test', connections: 4 }, neverResolved)
    const sent = sendAll([...Array(4).fill('greedy'), 'honest'])
    sweep(GRACE_MS)
    expect(await outcomesNow(sent)).toEqual(Array(5).fill('pending'))
  })
})

test('a client may read nothing for 30 seconds, then its connection is free again', async () => {
  const sweep = sweepByHand()
  await start({ bodyIdleTimeoutMs: 1000, totalTimeoutMs: 100_000 })
  const lost: unknown[] = []
  const { promise: paused, resolve } = Promise.withResolvers<void>()
  const stalled = dispatcher.send(
    { workspaceId: 'ws_1', path: '/', headers: {} },
    {
      onHead: () => ({
        write: () => {
          resolve()
          return 'pause'
        },
        end: () => {},
        fail: failure => lost.push(failure),
      }),
      onFailure: failure => lost.push(failure),
    },
  )
  await upstream.received(1)
  upstream.requests[0]?.send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf')
  await paused
  for (const ms of [0, 29_999]) sweep(ms)
  expect(lost).toEqual([])
  sweep(1)
  expect(lost).toEqual([null])
  while (stalled.client !== null) await new Promise(setImmediate)
})

test('the log says that the name of the upstream cannot be resolved', async () => {
  await start()
  const logger = new LogSpy()
  const resolve = () => Promise.reject(new Error('no such name'))
  dispatcher = poolOf({ url: 'http://files.test' }, { logger, resolve })
  // Without the code of a system error it counts as a lost connection.
  expect(await send().outcome).toBe('reset')
  expect(logger.lines).toContainEqual({
    level: 'warn',
    fields: { part: 'upstream name resolution', reason: 'no such name', code: undefined },
    message: 'upstream name resolution failing',
  })
})
