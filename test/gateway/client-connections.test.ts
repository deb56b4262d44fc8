import { PassThrough } from 'node:stream'
import { beforeEach, describe, expect, it } from 'vitest'
import { ClientConnections } from '../../src/gateway/client-connections.ts'

let connections: ClientConnections
let socket: PassThrough

beforeEach(() => {
  connections = new ClientConnections()
  socket = new PassThrough()
})

/** An answer under way: only its end matters here. */
function beginAnswer(): { accepted: boolean; finish: () => void } {
  return { accepted: connections.begin(socket), finish: () => connections.ended(socket) }
}

function written(): string {
  return String(socket.read() ?? '')
}

describe('a connection with broken bytes on it', () => {
  it('gets its last answer at once where no other is owed', () => {
    connections.end(socket, 'bye')
    expect(written()).toBe('bye')
    expect(socket.writableEnded).toBe(true)
  })

  it('gets its last answer after all that are owed, never in the middle of one', () => {
    const first = beginAnswer()
    const second = beginAnswer()
    connections.end(socket, 'bye')
    first.finish()
    expect(written()).toBe('')
    second.finish()
    expect(written()).toBe('bye')
  })

  it('gets one last answer, however much more is broken', () => {
    const answer = beginAnswer()
    connections.end(socket, 'first')
    connections.end(socket, 'second')
    answer.finish()
    expect(written()).toBe('first')
  })

  it('has no further request handled', () => {
    beginAnswer()
    connections.end(socket, 'bye')
    expect(beginAnswer().accepted).toBe(false)
  })
})

describe('a connection whose answer is its last', () => {
  it('has no further request handled, and no second answer', () => {
    const answer = beginAnswer()
    connections.condemn(socket)
    expect(beginAnswer().accepted).toBe(false)
    connections.end(socket, 'bye')
    answer.finish()
    expect(written()).toBe('')
  })

  it('is cut where more comes after that answer', () => {
    const answer = beginAnswer()
    connections.condemn(socket)
    answer.finish()
    connections.end(socket, 'bye')
    expect(socket.destroyed).toBe(true)
  })
})

it('other connections go on as before', () => {
  connections.end(socket, 'bye')
  expect(connections.begin(new PassThrough())).toBe(true)
})
