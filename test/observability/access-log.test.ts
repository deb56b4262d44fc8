import fc from 'fast-check'
import pino from 'pino'
import { expect, test } from 'vitest'
import { AccessLog, type RequestEnd } from '../../src/observability/access-log.ts'
import type { RequestObservation } from '../../src/observability/request-observation.ts'

const END: RequestEnd = { status: 200, durationMs: 1.23456, aborted: false }

function seenWith(changes: Partial<RequestObservation>): RequestObservation {
  return {
    method: 'GET',
    startedAtMs: 0,
    lookupStartedAtMs: 0,
    requestId: 'id-1',
    route: 'files',
    phase: 'streaming',
    reason: null,
    keyId: null,
    workspaceId: null,
    tier: null,
    source: 'gateway',
    upstreamWaitMs: 0.98765,
    responseBytes: 3,
    isInFlight: false,
    fault: null,
    clientAddress: '',
    upstreamStatus: null,
    truncated: false,
    shared: null,
    traceId: null,
    trace: null,
    ...changes,
  }
}

/** Returns the written line. */
function lineOf(seen: RequestObservation, end: RequestEnd): string {
  const lines: string[] = []
  new AccessLog(pino({ level: 'info' }, { write: () => {} }), { write: line => lines.push(line) }).write(
    seen,
    end,
  )
  return lines.join('')
}

function entryOf(seen: RequestObservation, end: RequestEnd): Record<string, unknown> {
  return JSON.parse(lineOf(seen, end)) as Record<string, unknown>
}

test('a line for a request has the format of the logger', () => {
  const lines: string[] = []
  const stream = { write: (line: string) => lines.push(line) }
  const logger = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream)
  const known = { keyId: 'key_1', workspaceId: 'ws_1', tier: 'memory' } as const
  new AccessLog(logger, stream).write(
    seenWith({ ...known, reason: 'scope_missing', fault: 'a "fault"', upstreamStatus: 302 }),
    END,
  )
  const fields = {
    requestId: 'id-1',
    method: 'GET',
    route: 'files',
    status: 200,
    source: 'gateway',
    reason: 'scope_missing',
    ...known,
    fault: 'a "fault"',
    upstreamStatus: 302,
    durationMs: 1.235,
    upstreamMs: 0.988,
  }
  logger.info(fields, 'request')
  const [own = '', library = ''] = lines
  const withoutTime = (line: string) => line.replace(/"time":"[^"]*Z"/, '')
  expect(own).toMatch(/"time":"[^"]*Z"/)
  expect(withoutTime(own)).toBe(withoutTime(library))
})

test('times are in milliseconds with three decimals', () => {
  const aDay = 86_400_000
  const time = fc.oneof(
    fc.double({ min: 0, max: 2, noNaN: true }),
    fc.double({ min: 0, max: aDay, noNaN: true }),
  )
  fc.assert(
    fc.property(time, time, (durationMs, upstreamWaitMs) => {
      const line = lineOf(seenWith({ upstreamWaitMs }), { ...END, durationMs })
      const rounded = (ms: number) => String(Math.round(ms * 1000) / 1000)
      expect(line).toContain(`,"durationMs":${rounded(durationMs)},"upstreamMs":${rounded(upstreamWaitMs)},`)
    }),
    {
      numRuns: 2000,
      examples: [
        [0, 0.0004],
        [1, 0.9996],
        [1.05, 59_999.9995],
      ],
    },
  )
})

test('no text from a client, key service or upstream can break out of its field', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), fc.string(), (keyId, workspaceId, fault, route) => {
      const line = lineOf(seenWith({ keyId, workspaceId, fault, route }), END)
      expect(line.trimEnd()).not.toContain('\n')
      expect(JSON.parse(line)).toMatchObject({
        keyId,
        workspaceId,
        fault,
        route,
        msg: 'request',
        status: 200,
      })
    }),
  )
})

test('an aborted request has no status; a truncated response says so', () => {
  const aborted = entryOf(seenWith({ phase: 'waiting' }), { ...END, aborted: true })
  expect([aborted['aborted'], 'status' in aborted, 'source' in aborted]).toEqual(['waiting', false, false])
  expect(entryOf(seenWith({ truncated: true }), END)).toMatchObject({ status: 200, truncated: true })
})

test('with a log level above info, no line for a request is written', () => {
  const lines: string[] = []
  const logger = pino({ level: 'warn' }, { write: () => {} })
  const log = new AccessLog(logger, { write: line => lines.push(line) })
  log.write(seenWith({}), END)
  expect(lines).toEqual([])
  logger.level = 'info'
  log.write(seenWith({}), END)
  expect(lines).toHaveLength(1)
})
