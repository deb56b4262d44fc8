'use strict'

// Plain CommonJS, so that every Node can load it and print the message. Older 24 and all 20 drop header fields silently once
// there are too many of them (CVE-2026-58044): a gateway must not decide on half a request.
const LEAST = [24, 18, 1]

const version = process.versions.node.split('.').map(Number)
const firstDifference = LEAST.findIndex((part, index) => part !== version[index])
if (firstDifference >= 0 && (version[firstDifference] ?? 0) < (LEAST[firstDifference] ?? 0)) {
  process.stderr.write(
    `Postern needs Node ${LEAST.join('.')} or newer; this is ${process.versions.node}.\n` +
      'In a checkout, run "npm ci": "npm start" and the command src/bin/postern then use the Node that it installs.\n' +
      'Elsewhere, install Node 24 LTS.\n',
  )
  process.exit(1)
}
