import { Writable } from 'node:stream'
import { beforeEach, describe, expect, test } from 'vitest'
import { LogSink } from '../../src/observability/log-sink.ts'

/** A reader that accepts one write at each call of `take`. */
class Reader extends Writable {
  readonly lines: string[] = []
  #take: (() => void) | null = null

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#take = () => {
      this.lines.push(chunk.toString())
      done()
    }
  }

  take(): void {
    this.#take?.()
  }
}

let reader: Reader
let dropped: number
let sink: LogSink

beforeEach(() => {
  reader = new Reader()
  dropped = 0
  sink = new LogSink(reader, { inc: () => dropped++ }, lines => lines, 10, setImmediate)
})

function write(...lines: string[]): void {
  for (const line of lines) sink.write(`${line}\n`)
}

/** Waits until the batch of this turn of the event loop is written. */
function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

describe('lines for a stalled reader', () => {
  test('are buffered while there is room, then dropped and counted', async () => {
    write('1234', '1234', '5', '6')
    await turn()
    expect([reader.writableLength, dropped]).toEqual([10, 2])
  })

  test('are reported in one line once half of the buffer is free', async () => {
    write('1234')
    await turn()
    write('1234', 'lost', 'lost')
    reader.take()
    await turn()
    write('lost')
    reader.take()
    await turn()
    write('next')
    await turn()
    reader.take()
    await turn()
    reader.take()
    expect(reader.lines.slice(0, 2)).toEqual(['1234\n', '1234\n'])
    const [report = '', next] = (reader.lines[2] ?? '').split('\n')
    expect(JSON.parse(report)).toMatchObject({
      level: 40,
      dropped: 3,
      msg: 'log output stalled or failed, lines dropped',
    })
    expect(next).toBe('next')
  })
})

/** A file whose disk may be full: as Node's stream for files, it fails for good with its first failed write. */
function fileOn(disk: { isFull: boolean; text: string }): Writable & { reopen: () => Writable } {
  const file = new Writable({
    write(chunk: Buffer, _encoding, done) {
      disk.text += disk.isFull ? chunk.toString().slice(0, 5) : chunk.toString()
      done(disk.isFull ? new Error('ENOSPC') : null)
    },
  })
  return Object.assign(file, { reopen: () => fileOn(disk) })
}

test('a file whose disk was full is written again, and the log says how many lines are missing', async () => {
  const disk = { isFull: false, text: '' }
  sink = new LogSink(fileOn(disk), { inc: (by = 1) => (dropped += by) }, lines => lines, 1_000, setImmediate)
  write('before')
  await turn()
  disk.isFull = true
  for (const line of ['lost 1', 'lost 2', 'lost 3']) {
    write(line, line)
    await turn()
  }
  disk.isFull = false
  write('after')
  await turn()
  const whole = disk.text.split('\n').flatMap(line => (/^(?:before|after|\{.*\})$/.test(line) ? [line] : []))
  expect([whole[0], whole.at(-1), dropped]).toEqual(['before', 'after', 6])
  expect(whole.slice(1, -1).map(line => JSON.parse(line))).toMatchObject([
    { dropped: 6, msg: 'log output stalled or failed, lines dropped' },
  ])
})

test('lines within one batch are written in one call', async () => {
  write('1', '2', '3')
  expect(reader.writableLength).toBe(0)
  await turn()
  reader.take()
  expect(reader.lines).toEqual(['1\n2\n3\n'])
})

test('a closed output does not end the process: later lines are dropped and counted', () => {
  reader.emit('error', new Error('EPIPE'))
  write('lost')
  expect([reader.writableLength, dropped]).toEqual([0, 1])
})

test('flush waits until all lines are written, but no longer than its deadline', async () => {
  write('1')
  const taken = sink.flush(60_000)
  reader.take()
  // Node passes on the next write, the empty one of `flush`, in a later turn.
  await turn()
  reader.take()
  await taken
  write('2')
  await sink.flush(1)
  expect(reader.writableLength).toBeGreaterThan(0)
})
