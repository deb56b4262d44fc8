import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Circuit } from '../../src/domain/circuit.ts'

const SETTINGS = { failures: 3, openMs: 1000 }

function opened(): Circuit {
  const circuit = new Circuit(SETTINGS)
  for (let failure = 0; failure < SETTINGS.failures; failure++) circuit.failed(0)
  return circuit
}

describe('a circuit', () => {
  it('stays closed after failures that are not consecutive', () => {
    const circuit = new Circuit(SETTINGS)
    for (let round = 0; round < 10; round++) {
      circuit.failed(round)
      circuit.failed(round)
      circuit.succeeded()
    }
    expect(circuit.state(10)).toBe('closed')
    expect(circuit.admits(10)).toBe(true)
  })

  it('opens at the configured number of consecutive failures', () => {
    const circuit = opened()
    expect([circuit.state(0), circuit.admits(0)]).toEqual(['open', false])
    expect(circuit.admits(999)).toBe(false)
  })

  it('admits exactly one probe after that time', () => {
    const circuit = opened()
    expect(circuit.state(1000)).toBe('half_open')
    expect([circuit.admits(1000), circuit.admits(1000), circuit.admits(5000)]).toEqual([true, false, false])
  })

  it('closes when the probe succeeds', () => {
    const circuit = opened()
    circuit.admits(1000)
    circuit.succeeded()
    expect([circuit.state(1001), circuit.admits(1001), circuit.admits(1001)]).toEqual(['closed', true, true])
  })

  it('opens again for the same time when the probe fails', () => {
    const circuit = opened()
    circuit.admits(1500)
    circuit.failed(1500)
    expect([circuit.admits(2499), circuit.admits(2500)]).toEqual([false, true])
  })

  it('admits another probe if the client of the first one disconnected', () => {
    const circuit = opened()
    circuit.admits(1000)
    circuit.abandoned()
    expect(circuit.admits(1001)).toBe(true)
  })

  it('admits a probe of each of several callers, up to a number', () => {
    const circuit = new Circuit({ ...SETTINGS, maxProbes: 2 })
    for (let failure = 0; failure < SETTINGS.failures; failure++) circuit.failed(0)
    const admitted = (...callers: string[]) => callers.map(caller => circuit.admits(1000, caller))
    expect(admitted('one', 'one', 'two', 'three')).toEqual([true, false, true, false])
    circuit.abandoned('two')
    expect(admitted('one', 'three', 'two')).toEqual([false, true, false])
    circuit.failed(1000)
    expect([circuit.admits(1999, 'one'), circuit.admits(2000, 'one')]).toEqual([false, true])
    circuit.succeeded()
    expect(admitted('one', 'one', 'two', 'three')).toEqual([true, true, true, true])
  })

  it('always admits a request again, after every sequence of events', () => {
    const step = fc.constantFrom('admits', 'succeeded', 'failed', 'abandoned')
    fc.assert(
      fc.property(fc.array(fc.tuple(step, fc.nat(3000))), steps => {
        const circuit = new Circuit(SETTINGS)
        let nowMs = 0
        let out = 0
        for (const [name, waitMs] of steps) {
          nowMs += waitMs
          if (name === 'admits') out += circuit.admits(nowMs) ? 1 : 0
          else if (out > 0) {
            out--
            if (name === 'failed') circuit.failed(nowMs)
            else circuit[name]()
          }
        }
        for (; out > 0; out--) circuit.failed(nowMs)
        expect(circuit.admits(nowMs + SETTINGS.openMs)).toBe(true)
      }),
    )
  })
})

it('failures within mergeFailuresMs count as one', () => {
  const circuit = new Circuit({ failures: 2, openMs: 500, mergeFailuresMs: 20 })
  for (let together = 0; together < 100; together++) circuit.failed(together / 10)
  expect(circuit.state(10)).toBe('closed')
  circuit.failed(20)
  expect(circuit.state(20)).toBe('open')
  expect(circuit.admits(520)).toBe(true)
  circuit.failed(521)
  expect(circuit.state(521)).toBe('open')
})
