import { expect, test } from 'vitest'
import { Answering } from '../../src/redis/answering.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { settled } from '../support/until.ts'

function watched(confirm = async () => true) {
  const timers = new ManualTimers()
  const probes: PromiseWithResolvers<void>[] = []
  const events: string[] = []
  const answering = new Answering({
    probe() {
      const probe = Promise.withResolvers<void>()
      probes.push(probe)
      return probe.promise
    },
    confirm,
    isChecked: false,
    isOpen: () => true,
    timers,
    clock: { monotonicMs: () => timers.nowMs },
    onAnswering: isNew => void events.push(isNew ? 'new' : 'again'),
    onFailing: () => void events.push('silent'),
  })
  const fail = () => answering.watch(() => Promise.reject(new Error('Command timed out'))).catch(() => {})
  return { answering, timers, probes, events, fail }
}

test('a connection counts once its server has answered, not when it is open', async () => {
  const { answering, probes, events } = watched()
  answering.opened()
  expect(answering.isAnswering).toBe(false)
  probes[0]?.resolve()
  await settled()
  expect(answering.isAnswering).toBe(true)
  expect(events).toEqual(['new'])
})

test('a server that may have been replaced does not count until that is confirmed not to be so', async () => {
  let isConfirmed = false
  const { answering, timers, probes, events } = watched(async () => isConfirmed)
  answering.opened()
  probes[0]?.resolve()
  await settled()
  expect(answering.isAnswering).toBe(false)
  isConfirmed = true
  timers.advance(500)
  probes[1]?.resolve()
  await settled()
  expect(answering.isAnswering).toBe(true)
  answering.doubt(new Error('no majority'))
  expect(answering.isAnswering).toBe(false)
  timers.advance(500)
  probes[2]?.resolve()
  await settled()
  expect(answering.isAnswering).toBe(true)
  expect(events).toEqual(['new', 'silent', 'again'])
})

test('commands that fail together for a pause of the server cost one probe, not half a second', async () => {
  const { answering, timers, probes, events, fail } = watched()
  answering.opened()
  probes[0]?.resolve()
  await settled()
  await Promise.all(Array.from({ length: 64 }, fail))
  expect(answering.isAnswering).toBe(false)
  expect(probes).toHaveLength(2)
  probes[1]?.resolve()
  await settled()
  expect(answering.isAnswering).toBe(true)
  expect(timers.nowMs).toBe(0)
  expect(events).toEqual(['new', 'silent', 'again'])
})

test('a server that answers no probe is asked twice a second, and not again after its connection was replaced', async () => {
  const { answering, timers, probes } = watched()
  answering.opened()
  probes[0]?.reject(new Error('Command timed out'))
  await settled()
  timers.advance(500)
  expect(probes).toHaveLength(2)
  answering.opened()
  expect(probes).toHaveLength(3)
  probes[1]?.resolve()
  await settled()
  expect(answering.isAnswering).toBe(false)
  probes[2]?.resolve()
  await settled()
  expect(answering.isAnswering).toBe(true)
})
