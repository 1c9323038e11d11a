/** The first bytes a real TLS client sends, for a name or for none. */
import { once } from "node:events"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { connect } from "node:tls"

export const clientHello = async (name: string | undefined): Promise<Buffer> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const accepted = once(server, "connection") as Promise<[Socket]>
  const client = connect({
    host: "127.0.0.1",
    port: (server.address() as AddressInfo).port,
    ...(name === undefined ? {} : { servername: name }),
  })
  client.on("error", () => {})
  const [socket] = await accepted
  socket.on("error", () => {})
  const [bytes] = (await once(socket, "data")) as [Buffer]
  client.destroy()
  socket.destroy()
  server.close()
  return bytes
}
