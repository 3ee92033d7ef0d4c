// ns-3's own TCP with one rule repaired: which time stamp a site echoes.
//
// By RFC 7323, section 4.3, a site echoes the time stamp of the segment that begins at or before what
// it has acknowledged last. ns-3 notes only acknowledgements that have no data. Where both sites send,
// data carry most of them, so ns-3 echoes a stamp that may be seconds old. The other site takes that
// for the round trip, and its timeout grows to half a minute.

#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"

namespace ns3 {

class SocketOfNs3 : public TcpSocketBase
{
public:
  static TypeId GetTypeId ()
  {
    static TypeId id =
      TypeId ("ns3::SocketOfNs3")
        .SetParent<TcpSocketBase> ()
        .AddConstructor<SocketOfNs3> ()
        .AddAttribute ("EchoOld", "echo old time stamps, as ns-3 does", BooleanValue (false),
                       MakeBooleanAccessor (&SocketOfNs3::m_isEchoOld), MakeBooleanChecker ());
    return id;
  }

  TypeId GetInstanceTypeId () const override { return GetTypeId (); }

  /// A socket as TcpL4Protocol makes its own.
  static Ptr<Socket> Make (Ptr<Node> node, TypeId congestionControl, TypeId recovery)
  {
    Ptr<TcpL4Protocol> tcp = node->GetObject<TcpL4Protocol> ();
    auto socket = CreateObject<SocketOfNs3> ();
    ObjectFactory control (congestionControl.GetName ()), recoveries (recovery.GetName ());
    socket->SetNode (node);
    socket->SetTcp (tcp);
    socket->SetRtt (CreateObject<RttMeanDeviation> ());
    socket->SetCongestionControlAlgorithm (control.Create<TcpCongestionOps> ());
    socket->SetRecoveryAlgorithm (recoveries.Create<TcpRecoveryOps> ());
    tcp->AddSocket (socket);
    return socket;
  }

  bool HasUnsent () const { return m_txBuffer->SizeFromSequence (m_tcb->m_highTxMark); }

protected:
  Ptr<TcpSocketBase> Fork () override { return CopyObject<SocketOfNs3> (this); }

  uint32_t SendDataPacket (SequenceNumber32 from, uint32_t limit, bool withAck) override
  {
    uint32_t sent = TcpSocketBase::SendDataPacket (from, limit, withAck);
    if (withAck && !m_isEchoOld)
      m_highTxAck = std::max (m_highTxAck, m_tcb->m_rxBuffer->NextRxSequence ());
    return sent;
  }

private:
  bool m_isEchoOld = false;
};
NS_OBJECT_ENSURE_REGISTERED (SocketOfNs3);

} // namespace ns3
