import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { plainConnector, READ_BYTES, UpstreamSocket } from '../../../src/upstream/pool/upstream-socket.ts'
import { freePort } from '../../support/free-port.ts'
import { until } from '../../support/until.ts'

const server = createServer()
let upstream: Socket
let socket: UpstreamSocket

beforeEach(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const accepted = once(server, 'connection')
  // It listens on an address and a port.
  socket = await connected((server.address() as AddressInfo).port)
  ;[upstream] = await accepted
  upstream.setNoDelay(true).on('error', () => {})
})
afterEach(() => {
  socket.destroy()
  upstream.destroy()
  server.close()
})

function connected(port: number, timeoutMs = 1000): Promise<UpstreamSocket> {
  const options = { hostname: '127.0.0.1', host: '127.0.0.1', protocol: 'http:', port: String(port) }
  return new Promise((resolve, reject) => {
    plainConnector(timeoutMs)(options, (error, made) =>
      made instanceof UpstreamSocket ? resolve(made) : reject(error),
    )
  })
}

/** Sends each text once the one before it was read. @returns the bytes, as `read` gave them and nothing copied */
async function readEach(texts: readonly string[], done: () => void): Promise<Buffer[]> {
  const read: Buffer[] = []
  for (const text of texts) {
    const readable = once(socket, 'readable')
    socket.once('readable', () => {
      const bytes = socket.read()
      if (bytes !== null) read.push(bytes)
      done()
    })
    upstream.write(text)
    await readable
  }
  return read
}

const texts = ['of one client', 'and of another', 'and of a third', 'and so on']

test('what somebody still holds of an answer is not overwritten by the next', async () => {
  const read = await readEach(texts, () => {})
  expect(read.map(String)).toEqual(texts)
})

test('only an answer of which nobody holds anything gives its memory to the next', async () => {
  let answers = 0
  const read = await readEach(texts, () => {
    answers += 1
    if (answers !== 2) socket.release()
  })
  const [first, second, third, fourth] = read.map(bytes => bytes.buffer)
  expect(second).toBe(first)
  // The second was not given back.
  expect(third).not.toBe(second)
  expect(String(read[1])).toBe(texts[1])
  expect(fourth).not.toBe(second)
})

test('where nobody takes what came, the sender is held up; taken, all of it comes, in order', async () => {
  const sent = Buffer.alloc(32_000_000, Buffer.from(Array.from({ length: 251 }, (_, byte) => byte)))
  upstream.end(sent)
  await once(socket, 'readable')
  for (let turn = 0; turn < 100; turn++) await nextTurn()
  expect(socket.bytesRead).toBeLessThanOrEqual(READ_BYTES)
  expect(upstream.writableLength).toBeGreaterThan(0)

  const taken: Buffer[] = []
  const take = () => {
    for (let bytes = socket.read(); bytes !== null; bytes = socket.read()) taken.push(bytes)
  }
  socket.on('readable', take)
  take()
  await once(socket, 'end')
  expect(Buffer.concat(taken).equals(sent)).toBe(true)
})

test('after the parser has paused without a rest, nothing is read ahead of it', async () => {
  let reads = 0
  const pause = () => {
    if (socket.read() === null) return
    reads += 1
    socket.unshift(Buffer.alloc(0))
  }
  socket.on('readable', pause)
  upstream.end(Buffer.alloc(1_000_000))
  await until('the first bytes have come', () => reads > 0)
  for (let turn = 0; turn < 100; turn++) await nextTurn()
  expect(reads).toBe(1)
  expect(socket.bytesRead).toBeLessThanOrEqual(READ_BYTES)

  socket.off('readable', pause).on('readable', () => socket.read())
  socket.read()
  await once(socket, 'end')
  expect(socket.bytesRead).toBe(1_000_000)
})

test('what the parser gives back comes before what came later', async () => {
  let given: Buffer | null = null
  socket.once('readable', () => {
    given = socket.read()
    socket.unshift(Buffer.from('back,'))
  })
  const readable = once(socket, 'readable')
  upstream.write('first,')
  await readable
  upstream.write('later')
  const taken: string[] = []
  const done = new Promise<void>(resolve => {
    socket.on('readable', () => {
      for (let bytes = socket.read(); bytes !== null; bytes = socket.read()) taken.push(String(bytes))
      if (taken.includes('later')) resolve()
    })
  })
  expect(String(given)).toBe('first,')
  taken.push(String(socket.read()), String(socket.read()))
  await done
  expect(taken).toEqual(['back,', 'null', 'later'])
})

test('a connection that is refused fails with the system’s own error', async () => {
  const port = await freePort()
  await expect(connected(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('a connection that is not made in time is given up', async () => {
  const listen =
    'const s = net.createServer().listen({ port: 0, backlog: 1 }, () => console.log(s.address().port))'
  const child = spawn(process.execPath, ['-e', listen], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const [port] = await once(child.stdout, 'data')
    // Stopped, it accepts nobody: the system makes one or two connections for it, and leaves the others without an answer.
    child.kill('SIGSTOP')
    const attempts = await Promise.allSettled(Array.from({ length: 8 }, () => connected(Number(port), 200)))
    const errors = attempts.filter(attempt => attempt.status === 'rejected').map(({ reason }) => reason.code)
    for (const attempt of attempts) if (attempt.status === 'fulfilled') attempt.value.destroy()
    expect(errors.length).toBeGreaterThan(4)
    expect(new Set(errors)).toEqual(new Set(['UND_ERR_CONNECT_TIMEOUT']))
  } finally {
    child.kill('SIGKILL')
  }
})
