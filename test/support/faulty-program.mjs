// For `node --import`: throws an uncaught error or rejection when the test sends a signal.
process.on('SIGUSR2', () => {
  if (process.env['TEST_FAULT'] === 'rejection') void Promise.reject(new Error('rejected on purpose'))
  else
    setImmediate(() => {
      throw new Error('thrown on purpose')
    })
})
