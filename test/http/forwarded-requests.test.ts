import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { ForwardedRequests } from '../../src/http/client-connection.ts'

/** A request of a connection; Node gives the socket to the response that is sent next. */
function requestOf(socket: Socket, isNext: boolean) {
  const response = new ServerResponse(new IncomingMessage(socket))
  if (isNext) response.assignSocket(socket)
  return { response, observation: { isInFlight: true } }
}

test('the upstream owes the next response until that one is handed over or closed', () => {
  const socket = new Socket()
  const [next, later] = [requestOf(socket, true), requestOf(socket, false)]
  const requests = new ForwardedRequests()
  expect(requests.isNextExpected).toBe(false)
  requests.add(later)
  expect(requests.isNextExpected).toBe(false)
  requests.add(next)
  // It is tried a second time, on another connection.
  requests.add(next)
  expect(requests.isNextExpected).toBe(true)
  requests.delete(requestOf(socket, false).response)
  expect(requests.isNextExpected).toBe(true)
  next.observation.isInFlight = false
  expect(requests.isNextExpected).toBe(false)
  next.observation.isInFlight = true
  requests.delete(next.response)
  expect(requests.isNextExpected).toBe(false)
})

test('the only request of a connection is forgotten with its response', () => {
  const one = requestOf(new Socket(), true)
  const requests = new ForwardedRequests()
  requests.add(one)
  requests.delete(one.response)
  expect(requests.isNextExpected).toBe(false)
})
