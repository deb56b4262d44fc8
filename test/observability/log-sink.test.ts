import { Writable } from 'node:stream'
import { beforeEach, describe, expect, test } from 'vitest'
import { LogSink } from '../../src/observability/log-sink.ts'

/** A reader that takes a line when it is told to. */
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
  sink = new LogSink(reader, { inc: () => dropped++ }, 10)
})

function write(...lines: string[]): void {
  for (const line of lines) sink.write(`${line}\n`)
}

describe('lines that nobody takes', () => {
  test('wait as long as there is room, and are dropped and counted from then on', () => {
    write('1234', '1234', '5', '6')
    expect([reader.writableLength, dropped]).toEqual([10, 2])
  })

  test('are told of in one line once half of the room is free', async () => {
    write('1234', '1234', 'lost', 'lost')
    reader.take()
    await new Promise(setImmediate)
    write('lost')
    reader.take()
    await new Promise(setImmediate)
    write('next')
    reader.take()
    await new Promise(setImmediate)
    reader.take()
    expect(reader.lines.slice(0, 2)).toEqual(['1234\n', '1234\n'])
    expect(JSON.parse(reader.lines[2] ?? '')).toMatchObject({ level: 40, dropped: 3 })
    expect(reader.lines[3]).toBe('next\n')
  })
})

test('a reader that has left ends nothing: what is said from then on is counted', () => {
  reader.emit('error', new Error('EPIPE'))
  write('to nobody')
  expect([reader.writableLength, dropped]).toEqual([0, 1])
})

test('the end waits until all is taken, but not for ever', async () => {
  write('1')
  const taken = sink.flushed(60_000)
  reader.take()
  // Node hands on what comes next, the empty write that was waited with, in a later turn.
  await new Promise(setImmediate)
  reader.take()
  await taken
  write('2')
  await sink.flushed(1)
  expect(reader.writableLength).toBeGreaterThan(0)
})
