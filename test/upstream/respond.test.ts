import { describe, expect, test } from 'vitest'
import { ForwardHere, turn } from '../support/forward-here.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const KIB_16 = 16 * 1024

/** One client and its request at the upstream. */
function start(options: ConstructorParameters<typeof ForwardHere>[0] = {}, minor = 1) {
  const here = new ForwardHere(options)
  const client = here.request({}, { minor })
  const [sent] = here.sent
  if (sent === undefined) throw new Error('Nothing was sent')
  const { observation, response } = client.request
  return { here, client, sent, observation, response }
}

/** A client that receives a response in pieces. */
function streaming(headers: Record<string, string> = { 'content-length': '100000' }, minor = 1) {
  const parts = start({}, minor)
  const sink = parts.sent.head(200, { ...JSON_TYPE, ...headers })
  if (sink === null) throw new Error('The body is not needed')
  return { ...parts, sink, write: (length: number) => sink.write(Buffer.alloc(length, 'x')) }
}

describe('a response', () => {
  test('in one piece reaches the client with the gateway’s own headers', async () => {
    const { client, sent, observation } = start()
    expect(observation.phase).toBe('waiting')
    await sent.respond('{"a":"é"}', { etag: '"7"' })
    expect([client.status, client.body]).toEqual([200, Buffer.from('{"a":"é"}').toString('latin1')])
    const names = ['etag', 'x-content-type-options', 'x-request-id', 'cache-control', 'content-length']
    expect(names.map(name => client.header(name))).toEqual(['"7"', 'nosniff', 'req-1', 'private', '10'])
    expect(observation).toMatchObject({
      source: 'upstream',
      phase: 'streaming',
      responseBytes: 10,
      upstreamWaitMs: 30,
      fault: null,
      truncated: false,
    })
    expect(client.request.response.writableFinished).toBe(true)
  })

  test('in pieces begins with the first and is counted as a whole', async () => {
    const { client, sink, observation, response } = streaming({ 'content-length': '4' })
    expect(client.text).toBe('')
    expect(sink.write(Buffer.from('ab'))).toBe('continue')
    expect(client.body).toBe('ab')
    sink.write(Buffer.from('cd'))
    sink.end()
    await turn()
    expect([client.body, observation.responseBytes, response.writableFinished]).toEqual(['abcd', 4, true])
  })

  test('keeps a header that the gateway has set before', async () => {
    const { client, sent } = start()
    client.request.response.setHeader('ETag', '"own"')
    await sent.respond('{}', { etag: '"7"' })
    expect(client.text.match(/etag: .*/gi)).toEqual(['ETag: "own"'])
  })

  test('without a body leaves at once', async () => {
    const { client, sent, response } = start()
    expect(sent.head(204, {})).toBeNull()
    await turn()
    expect([client.status, client.body, response.writableFinished]).toEqual([204, '', true])
  })
})

describe('reading from the upstream', () => {
  test('pauses while 16 KiB wait for the client, and resumes when they are sent', async () => {
    const { client, sent, write } = streaming()
    expect(write(KIB_16)).toBe('continue')
    client.isReading = false
    expect(write(1)).toBe('continue')
    expect(write(KIB_16 - 2)).toBe('continue')
    expect(write(1)).toBe('pause')
    const before = sent.resumed
    client.readOn()
    await turn()
    expect(sent.resumed).toBeGreaterThan(before)
  })

  test('does not resume while another 16 KiB wait', async () => {
    const { client, sent, write } = streaming()
    client.isReading = false
    write(1)
    write(KIB_16)
    client.readOnce()
    await turn()
    expect(sent.resumed).toBe(0)
    client.readOn()
    await turn()
    expect(sent.resumed).toBeGreaterThan(0)
  })

  test('does not resume after the client has disconnected', async () => {
    const { client, sent, write } = streaming()
    client.isReading = false
    write(1)
    write(2 * KIB_16)
    const before = sent.resumed
    await client.disconnect()
    expect([sent.resumed, sent.wasAborted]).toEqual([before, true])
  })
})

describe('the memory of a part of a body', () => {
  const whole = () => Buffer.alloc(KIB_16, 'x')

  test('is given back once the part is sent', async () => {
    const { client, sink } = streaming()
    const part = whole()
    client.isReading = false
    sink.write(part)
    await turn()
    expect(part).toHaveLength(KIB_16)
    client.readOn()
    await turn()
    expect([part.length, client.body]).toEqual([0, 'x'.repeat(KIB_16)])
  })

  test('stays where the part is one of several in its read', async () => {
    const { client, sink } = streaming()
    const read = whole()
    sink.write(read.subarray(0, 10))
    sink.write(read.subarray(10))
    await turn()
    expect([read.length, client.body.length]).toEqual([KIB_16, KIB_16])
  })

  test('stays where sending fails, since the system may still read it', async () => {
    const { client, sink } = streaming()
    const [sent, waiting] = [whole(), whole()]
    client.isReading = false
    sink.write(sent)
    sink.write(waiting)
    client.loseConnection()
    await turn()
    expect([sent.length, waiting.length]).toEqual([KIB_16, KIB_16])
  })
})

describe('a failure of the upstream', () => {
  test('before the response is a denial', () => {
    const { client, sent, observation } = start()
    sent.fail('headers_timeout')
    expect(client.denied).toBe('upstream_timeout')
    expect(observation).toMatchObject({ fault: 'headers_timeout', upstreamWaitMs: 30, source: 'gateway' })
  })

  test('before the first byte of a body is a denial as well', () => {
    const { client, sink, observation } = streaming()
    sink.fail(null)
    expect([client.denied, client.text, observation.fault]).toEqual(['upstream_error', '', null])
  })

  test.each([
    ['within a body of known length', { 'content-length': '9' }, 1, false],
    ['within a chunked body', {}, 1, false],
    ['within a body that ends with its connection', {}, 0, true],
    ['within a body of known length for HTTP/1.0', { 'content-length': '9' }, 0, false],
  ])('%s closes the connection, so that it never looks complete', async (_where, headers, minor, isReset) => {
    const framing = 'content-length' in headers ? headers : { 'transfer-encoding': 'chunked' }
    const { client, write, sink, observation, response } = streaming(framing, minor)
    write(3)
    const { UpstreamFailure } = await import('../../src/upstream/pool/failure.ts')
    sink.fail(new UpstreamFailure('truncated'))
    expect([response.destroyed, client.wasReset, client.denied]).toEqual([true, isReset, null])
    expect(observation).toMatchObject({ fault: 'truncated', truncated: true })
  })

  test('that the client caused is no fault', () => {
    const { write, sink, observation, response } = streaming()
    write(3)
    sink.fail(null)
    expect(response.destroyed).toBe(true)
    expect(observation).toMatchObject({ fault: null, truncated: false })
  })
})

describe('a response that is not for the client', () => {
  test.each([
    [500, 'upstream_error', 'status_500'],
    [503, 'upstream_unavailable', null],
    [404, 'upstream_not_found', null],
  ])('is a denial: %i', (status, reason, fault) => {
    const { client, sent, observation } = start()
    expect(sent.head(status, { 'content-length': '0' })).toBeNull()
    expect(client.denied).toBe(reason)
    expect(observation).toMatchObject({ upstreamStatus: status, fault, source: 'gateway' })
  })

  const rejection = '{"code":"quota","error":"Used up","trace":"x"}'
  const own = '{"code":"quota","error":"Used up"}'
  const general = '{"code":"upstream_rejected","error":"The service rejected the request"}'

  test('but a rejection passes with its code and error', async () => {
    const { client, sent, observation } = start()
    const sink = sent.head(422, { 'retry-after': '3', 'content-type': 'text/html', server: 'x' })
    expect(sink?.write(Buffer.from(rejection.slice(0, 9)))).toBe('continue')
    sink?.write(Buffer.from(rejection.slice(9)))
    sink?.end()
    await turn()
    expect([client.status, client.body, observation.responseBytes]).toEqual([422, own, own.length])
    const names = ['retry-after', 'content-type', 'cache-control', 'x-content-type-options', 'x-request-id']
    expect(names.map(name => client.header(name))).toEqual([
      ...['3', 'application/json; charset=utf-8', 'no-store', 'nosniff', 'req-1'],
    ])
    expect([client.header('server'), client.header('content-length')]).toEqual([
      undefined,
      String(own.length),
    ])
    expect(observation.source).toBe('upstream')
  })

  test('a rejection of up to 16 KiB is read, a longer one is not waited for', async () => {
    const padded = (length: number) => Buffer.from(rejection.padEnd(length))
    const read = start()
    const sink = read.sent.head(409, {})
    expect(sink?.write(padded(KIB_16))).toBe('continue')
    sink?.end()
    await turn()
    expect([read.client.body, read.client.header('retry-after')]).toEqual([own, undefined])
    const long = start()
    expect(long.sent.head(409, {})?.write(padded(KIB_16 + 1))).toBe('discard')
    await turn()
    expect([long.client.status, long.client.body]).toEqual([409, general])
  })

  test('an encoded or incomplete rejection keeps its status', async () => {
    const encoded = start()
    await encoded.sent.respond(rejection, { 'content-encoding': 'gzip' }, 409)
    expect([encoded.client.status, encoded.client.body]).toEqual([409, general])
    const incomplete = start()
    incomplete.sent.head(409, {})?.fail(null)
    await turn()
    expect([incomplete.client.status, incomplete.client.body]).toEqual([409, general])
  })
})

describe('a client that disconnects', () => {
  test('before its request is sent causes no request', () => {
    const here = new ForwardHere()
    here.request({}, { isGone: true })
    expect(here.sent).toHaveLength(0)
  })

  test('later aborts its request', async () => {
    const { client, sent } = start()
    expect(sent.wasAborted).toBe(false)
    await client.disconnect()
    expect(sent.wasAborted).toBe(true)
  })
})

describe('an error of the gateway itself closes the connection of that client only', () => {
  const failing = () => {
    throw new Error('planted')
  }
  const closed = (parts: ReturnType<typeof start>) => {
    expect(parts.response.destroyed).toBe(true)
    expect(parts.observation.fault).toBe('The response could not be written: Error: planted')
  }

  test('while it decides on a response', () => {
    const parts = start({ policy: failing })
    expect(parts.sent.head(200, JSON_TYPE)).toBeNull()
    closed(parts)
  })

  test('while it denies', () => {
    const parts = start({ deny: failing })
    parts.sent.fail('reset')
    closed(parts)
  })
})
