import { expect, test } from 'vitest'
import { describeOtherPorts } from '../../src/run/run-demo.ts'

const ADDRESSES = {
  gateway: 'http://127.0.0.1:40001',
  console: 'http://127.0.0.1:8081',
  internal: 'http://127.0.0.1:40002',
  ops: 'http://127.0.0.1:40003',
}

test('a demo says which usual ports are in use, and where it listens instead', () => {
  expect(describeOtherPorts(new Map(), ADDRESSES)).toBe(
    'Port 8080 is in use, perhaps by another demo: the gateway listens on port 40001.\n' +
      'Port 9090 is in use, perhaps by another demo: metrics are on port 40003.\n',
  )
})

test('a demo says nothing of ports that its user chose', () => {
  const flags = new Map([
    ['--gateway-port', '0'],
    ['--ops-port', '40003'],
  ])
  expect(describeOtherPorts(flags, ADDRESSES)).toBe('')
})
