import { expect, test } from 'vitest'
import { listUpstreamTargets } from '../../../src/upstream/pool/connector.ts'

test.each([
  ['http://files', [], [{ host: 'files', port: 80 }]],
  ['https://files/base', [], [{ host: 'files', port: 443 }]],
  ['http://[fd00::5]:8080', [], [{ host: 'fd00::5', port: 8080 }]],
  [
    'https://files',
    ['10.0.0.5:8443', '[fd00::5]:8443', 'files-2:443'],
    [
      { host: '10.0.0.5', port: 8443 },
      { host: 'fd00::5', port: 8443 },
      { host: 'files-2', port: 443 },
    ],
  ],
])('%s with addresses %j has the targets %j', (url, addresses, targets) => {
  expect(listUpstreamTargets({ url, addresses })).toEqual(targets)
})
