// A TCP for ns-3 that follows the RFCs which Linux follows and ns-3 3.37 does not.
//
// CubicOfLinux is RFC 9438 with its region of Reno, and HyStart (S. Ha, I. Rhee, "Taming the
// Elephants", 2011) with Linux's bounds. SocketOfLinux is ns-3's TCP with another sender: loss is
// detected by the time at which packets were sent (RACK) and by a probe of the tail (both RFC 8985),
// windows shrink in proportion (RFC 6937), grow only when they are full (RFC 9293, 3.8.6, RFC 7661),
// and round trips are measured to the nanosecond. ns-3's own sender loses time when a retransmission
// is lost, halves its window at each timeout of the same packet, and tells its congestion control the
// smoothed round trip, in milliseconds. Timers go off with a tick of the kernel's clock.
//
// As a receiver it acknowledges packets one by one at first and while its window grows, and several
// at once behind a loss. Segments, buffers and timeouts stay those of ns-3.

#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"

#include <cmath>
#include <list>

namespace ns3
{

/// Lets `Private` reach a private member of a class of ns-3, which `Tag` names.
template <typename Tag, typename Tag::Type Tag::Owner::*member>
struct Reach
{
  friend typename Tag::Type &Private (Tag, typename Tag::Owner &owner) { return owner.*member; }
};
#define REACH(TAG, OWNER, TYPE, MEMBER)                                                              \
  struct TAG                                                                                        \
  {                                                                                                 \
    using Owner = OWNER;                                                                            \
    using Type = TYPE;                                                                              \
    friend Type &Private (TAG, Owner &owner);                                                       \
  };                                                                                                \
  template struct Reach<TAG, &OWNER::MEMBER>;
REACH (SentList, TcpTxBuffer, std::list<TcpTxItem *>, m_sentList)
REACH (LostOut, TcpTxBuffer, uint32_t, m_lostOut)
REACH (RetransmittedOut, TcpTxBuffer, uint32_t, m_retrans)
REACH (IsLost, TcpTxItem, bool, m_lost)
REACH (StartOf, TcpTxItem, SequenceNumber32, m_startSeq)
#undef REACH

/// The number of the kernel's tick at a time. In Trunkline's runs, ticks come 5, 15, 25 ms .. after the
/// start, and that at 65 ms has a multiple of 8 as its number; traces of timers show both.
inline int64_t
TickAt (Time time, Time tick)
{
  return Div (time + tick / 2, tick) + 1;
}

/// A window of whole segments. What counts towards its next segment is forgotten at each loss.
class WindowOfLinux : public TcpCongestionOps
{
public:
  static TypeId GetTypeId ()
  {
    static TypeId id = TypeId ("ns3::WindowOfLinux").SetParent<TcpCongestionOps> ();
    return id;
  }

  uint32_t GetSsThresh (Ptr<const TcpSocketState> state, uint32_t) override
  {
    m_credit = 0;
    return std::max (2u, Shrink (state->GetCwndInSegments ())) * state->m_segmentSize;
  }

  void IncreaseWindow (Ptr<TcpSocketState> state, uint32_t acked) override
  {
    uint32_t size = state->m_segmentSize, window = state->m_cWnd / size;
    uint32_t threshold = state->m_ssThresh / size;
    if (window < threshold)
      {
        uint32_t more = std::min (acked, threshold - window);
        acked -= more;
        window += more;
      }
    if (acked)
      window += Avoid (window, acked);
    state->m_cWnd = window * size;
  }

  void CongestionStateSet (Ptr<TcpSocketState>, const TcpSocketState::TcpCongState_t entered) override
  {
    if (entered == TcpSocketState::CA_LOSS)
      m_credit = 0;
  }

protected:
  /// The threshold after a loss.
  virtual uint32_t Shrink (uint32_t window) = 0;

  /// How many segments the window grows by in congestion avoidance, when so many were acknowledged.
  virtual uint32_t Avoid (uint32_t window, uint32_t acked) = 0;

  /// The same, when the window grows by one for each `step` segments.
  uint32_t Count (uint32_t acked, uint32_t step)
  {
    uint32_t more = 0;
    if (m_credit >= step)
      m_credit = 0, more = 1;
    m_credit += acked;
    uint32_t whole = m_credit / step;
    m_credit -= whole * step;
    return more + whole;
  }

private:
  uint32_t m_credit = 0;
};
NS_OBJECT_ENSURE_REGISTERED (WindowOfLinux);

/// Reno: ns-3's halves its window in bytes, and keeps its credit.
class RenoOfLinux : public WindowOfLinux
{
public:
  static TypeId GetTypeId ()
  {
    static TypeId id =
      TypeId ("ns3::RenoOfLinux").SetParent<WindowOfLinux> ().AddConstructor<RenoOfLinux> ();
    return id;
  }

  std::string GetName () const override { return "RenoOfLinux"; }
  Ptr<TcpCongestionOps> Fork () override { return CopyObject<RenoOfLinux> (this); }

protected:
  uint32_t Shrink (uint32_t window) override { return window / 2; }
  uint32_t Avoid (uint32_t window, uint32_t acked) override { return Count (acked, window); }
};
NS_OBJECT_ENSURE_REGISTERED (RenoOfLinux);

/// CUBIC as RFC 9438 has it, and HyStart.
class CubicOfLinux : public WindowOfLinux
{
public:
  static TypeId GetTypeId ()
  {
    static TypeId id =
      TypeId ("ns3::CubicOfLinux")
        .SetParent<WindowOfLinux> ()
        .AddConstructor<CubicOfLinux> ()
        .AddAttribute ("HyStart", "whether slow start ends before packets are lost",
                       BooleanValue (true), MakeBooleanAccessor (&CubicOfLinux::m_hystart),
                       MakeBooleanChecker ())
        .AddAttribute ("HyStartDetect", "1: trains of acknowledgements, 2: longer round trips, 3: both",
                       UintegerValue (3), MakeUintegerAccessor (&CubicOfLinux::m_detect),
                       MakeUintegerChecker<uint32_t> (1, 3))
        .AddAttribute ("RenoFriendly", "whether the window is at least that of Reno",
                       BooleanValue (true), MakeBooleanAccessor (&CubicOfLinux::m_friendly),
                       MakeBooleanChecker ())
        .AddAttribute ("Tick", "the kernel's unit of time: a step holds for 1/32 s, in whole ticks",
                       TimeValue (MilliSeconds (10)), MakeTimeAccessor (&CubicOfLinux::m_tick),
                       MakeTimeChecker ());
    return id;
  }

  std::string GetName () const override { return "CubicOfLinux"; }
  Ptr<TcpCongestionOps> Fork () override { return CopyObject<CubicOfLinux> (this); }

  void PktsAcked (Ptr<TcpSocketState> state, uint32_t, const Time &rtt) override
  {
    if (rtt <= Time (0))
      return;
    m_lastAcked = Simulator::Now ();
    m_lastRtt = rtt;
    if (m_inEpoch && Simulator::Now () - m_epoch < Seconds (1))
      return; // queues of the loss are still in these round trips
    if (m_least.IsZero () || rtt < m_least)
      m_least = rtt;
    if (m_hystart && !m_found && state->m_cWnd < state->m_ssThresh)
      LookForTheEnd (state, rtt);
  }

  /// The curve stands still while nothing is sent (section 5.8).
  void CwndEvent (Ptr<TcpSocketState>, const TcpSocketState::TcpCAEvent_t event) override
  {
    Time lastSent = m_lastAcked - m_lastRtt;
    if (event == TcpSocketState::CA_EVENT_TX_START && m_inEpoch && Simulator::Now () > lastSent)
      m_epoch = std::min (m_epoch + Simulator::Now () - lastSent, Simulator::Now ());
  }

  /// After a timeout, the path may be another one (section 4.8).
  void CongestionStateSet (Ptr<TcpSocketState> state,
                           const TcpSocketState::TcpCongState_t entered) override
  {
    WindowOfLinux::CongestionStateSet (state, entered);
    if (entered != TcpSocketState::CA_LOSS)
      return;
    m_peak = 0;
    m_origin = m_k = 0;
    m_inEpoch = m_found = false;
    m_least = Time (0);
    BeginRound (state);
  }

protected:
  /// Section 4.6, with the fast convergence of 4.7.
  uint32_t Shrink (uint32_t window) override
  {
    m_peak = window < m_peak ? uint32_t (window * (1 + BETA) / 2) : window;
    m_inEpoch = false;
    return window * BETA;
  }

  uint32_t Avoid (uint32_t window, uint32_t acked) override
  {
    if (!m_inEpoch)
      {
        m_inEpoch = true;
        m_stepWindow = 0;
        m_stepTick = -1;
        m_epoch = Simulator::Now ();
        m_reno = window;
        m_origin = std::max (m_peak, window);
        m_k = std::cbrt ((m_origin - window) / C);
      }
    m_reno += RENO * acked / window;
    int64_t tick = TickAt (Simulator::Now (), m_tick);
    if (window != m_stepWindow || tick - m_stepTick > Div (Seconds (1), m_tick) / 32)
      {
        if (tick != m_stepTick)
          {
            m_step = FindStep (window);
            m_stepWindow = window;
            m_stepTick = tick;
          }
        if (m_friendly && m_reno >= window + 1)
          m_step = std::min (m_step, std::floor (window / std::floor (m_reno - window)));
        m_step = std::max (2.0, m_step); // at most 1.5 windows per round trip
      }
    return Count (acked, m_step);
  }

private:
  static constexpr double BETA = 717 / 1024., C = 410 / 1024.;
  static constexpr double RENO = 3 * (1 - BETA) / (1 + BETA); // segments per window, section 4.3
  static constexpr uint32_t LEAST_WINDOW = 16, LEAST_SAMPLES = 8;

  /// The number of acknowledged segments for which the window grows by one on the curve. Linux asks
  /// for it once per tick.
  double FindStep (uint32_t window) const
  {
    int64_t ticks = TickAt (Simulator::Now (), m_tick) - TickAt (m_epoch, m_tick);
    double t = (m_tick * (ticks + 1 + Div (m_least, m_tick))).GetSeconds ();
    double target = m_origin + std::trunc (C * std::pow (t - m_k, 3));
    double step = target > window ? window / (target - window) : 100.0 * window;
    if (m_peak == 0)
      step = std::min (step, 20.0); // nothing is known of the path yet
    return std::floor (step);
  }

  void BeginRound (Ptr<const TcpSocketState> state)
  {
    m_round = m_trainAcked = Simulator::Now ();
    m_roundEnd = state->m_highTxMark;
    m_roundLeast = Time::Max ();
    m_samples = 0;
  }

  /// HyStart: slow start ends when acknowledgements have kept coming for a round trip (half of one
  /// without pacing), or when the round trips of a round are longer.
  void LookForTheEnd (Ptr<TcpSocketState> state, Time rtt)
  {
    if (state->m_lastAckedSeq > m_roundEnd)
      BeginRound (state);
    if (state->m_cWnd < LEAST_WINDOW * state->m_segmentSize)
      return;
    Time now = Simulator::Now ();
    if (m_detect & 1 && now - m_trainAcked <= MilliSeconds (2))
      {
        m_trainAcked = now;
        Time length = m_least + MilliSeconds (1); // packets that the sender built into larger ones
        m_found = now - m_round > (state->m_pacing ? length : length / 2);
      }
    if (m_detect & 2)
      {
        m_roundLeast = std::min (m_roundLeast, rtt);
        Time more = Max (MilliSeconds (4), Min (MilliSeconds (16), m_least / 8));
        if (m_samples < LEAST_SAMPLES)
          ++m_samples;
        else if (m_roundLeast > m_least + more)
          m_found = true;
      }
    if (m_found)
      state->m_ssThresh = state->m_cWnd.Get ();
  }

  bool m_hystart, m_friendly;
  uint32_t m_detect;
  uint32_t m_peak = 0;
  double m_origin = 0, m_k = 0, m_reno = 0;
  bool m_inEpoch = false, m_found = false;
  Time m_epoch, m_least, m_lastAcked, m_lastRtt;
  Time m_round, m_trainAcked, m_roundLeast = Time::Max ();
  SequenceNumber32 m_roundEnd{0};
  uint32_t m_samples = 0, m_stepWindow = 0;
  int64_t m_stepTick = 0;
  double m_step = 2;
  Time m_tick;
};
NS_OBJECT_ENSURE_REGISTERED (CubicOfLinux);

/// The sender of a connection: what was lost, what may be sent, and when it is asked for again.
class SocketOfLinux : public TcpSocketBase
{
public:
  static TypeId GetTypeId ()
  {
    static TypeId id =
      TypeId ("ns3::SocketOfLinux")
        .SetParent<TcpSocketBase> ()
        .AddConstructor<SocketOfLinux> ()
        .AddAttribute ("Tick", "the kernel's unit of time: timers go off with one of its ticks",
                       TimeValue (MilliSeconds (10)), MakeTimeAccessor (&SocketOfLinux::m_tick),
                       MakeTimeChecker ());
    return id;
  }

  TypeId GetInstanceTypeId () const override { return GetTypeId (); }

  SocketOfLinux () = default;
  SocketOfLinux (const SocketOfLinux &listener)
    : TcpSocketBase (listener), m_tick (listener.m_tick), m_window (1 << 16)
  {
  }

  /// A socket as TcpL4Protocol makes its own.
  static Ptr<Socket> Make (Ptr<Node> node, TypeId congestionControl)
  {
    Ptr<TcpL4Protocol> tcp = node->GetObject<TcpL4Protocol> ();
    auto socket = CreateObject<SocketOfLinux> ();
    ObjectFactory control;
    control.SetTypeId (congestionControl);
    socket->SetNode (node);
    socket->SetTcp (tcp);
    socket->SetRtt (CreateObject<RttMeanDeviation> ());
    socket->SetCongestionControlAlgorithm (control.Create<TcpCongestionOps> ());
    socket->SetRecoveryAlgorithm (CreateObject<TcpClassicRecovery> ());
    tcp->AddSocket (socket);
    socket->TraceConnectWithoutContext ("Tx", MakeCallback (&SocketOfLinux::AddBlocks));
    return socket;
  }

  bool HasUnsent () const { return m_txBuffer->SizeFromSequence (m_tcb->m_highTxMark); }

protected:
  Ptr<TcpSocketBase> Fork () override { return CopyObject<SocketOfLinux> (this); }

  void DoDispose () override
  {
    m_reorderTimer.Cancel ();
    m_probeTimer.Cancel ();
    m_selectTimer.Cancel ();
    TcpSocketBase::DoDispose ();
  }

  /// Note what an acknowledgement brings, before ns-3 removes it from its buffer.
  void EstimateRtt (const TcpHeader &header) override
  {
    if (m_state != ESTABLISHED)
      return TcpSocketBase::EstimateRtt (header);
    m_news = News ();
    m_news.lostBefore = m_txBuffer->GetLost ();
    SequenceNumber32 end = header.GetAckNumber ();
    TcpOptionSack::SackList blocks;
    if (header.HasOption (TcpOption::SACK))
      blocks = DynamicCast<const TcpOptionSack> (header.GetOption (TcpOption::SACK))->GetSackList ();
    SequenceNumber32 last = end;
    for (auto &block : blocks)
      last = std::max (last, block.second);
    // What is selected comes first, so the round trip that RACK goes by is that of the last packet.
    for (bool isCumulative : {false, true})
      for (TcpTxItem *item : Private (SentList (), *m_txBuffer))
        {
          SequenceNumber32 from = Private (StartOf (), *item);
          SequenceNumber32 to = from + item->GetPacket ()->GetSize ();
          if (from >= last)
            break;
          bool isSelected = std::any_of (blocks.begin (), blocks.end (), [&] (auto &block) {
            return from >= block.first && to <= block.second;
          });
          if (!item->IsSacked () && isCumulative == (to <= end) && (isCumulative || isSelected))
            NoteDelivery (item, to, isCumulative);
        }
    Time sample = m_news.firstRtt.IsZero () || m_news.isRetransmissionAcked ? m_news.firstSelectedRtt
                                                                            : m_news.firstRtt;
    m_news.rtt = m_news.lastSelectedRtt.IsZero () ? m_news.lastRtt : m_news.lastSelectedRtt;
    if (sample.IsZero ())
      return;
    m_rtt->Measurement (sample);
    m_rto = Max (m_rtt->GetEstimate () + Max (m_clockGranularity, m_rtt->GetVariation () * 4), m_minRto);
    m_tcb->m_lastRtt = m_rtt->GetEstimate ();
    m_tcb->m_minRtt = std::min (m_tcb->m_minRtt, m_news.rtt);
  }

  void ProcessAck (const SequenceNumber32 &ack, bool isNewlySelected, uint32_t delivered,
                   const SequenceNumber32 &before) override
  {
    if (m_congestionControl->HasCongControl ())
      return TcpSocketBase::ProcessAck (ack, isNewlySelected, delivered, before);
    bool hasAdvanced = ack > before;
    m_tcb->m_lastAckedSeq = ack;
    if (hasAdvanced)
      m_timeouts = 0;
    bool isRetransmissionLost = m_news.hasLaterDelivery && DetectLosses ();
    FinishProbe (ack, hasAdvanced, isNewlySelected);
    m_congestionControl->PktsAcked (m_tcb, m_news.segments, m_news.rtt);
    ChangeState (ack, isRetransmissionLost);
    if (IsReducing ())
      Reduce (m_news.segments, hasAdvanced && m_txBuffer->GetLost () <= m_news.lostBefore
                                 && !isRetransmissionLost);
    else if (hasAdvanced && IsWindowFull ())
      m_congestionControl->IncreaseWindow (m_tcb, m_news.segments);
    if (hasAdvanced)
      NewAck (ack, true);
    if (hasAdvanced && m_retxEvent.IsRunning ())
      SetTimeout ();
    if (hasAdvanced || m_news.lastSelectedRtt > GetAgeOfHead ())
      SetProbeTimer (hasAdvanced);
    UpdatePacingRate ();
  }

  /// Packets with data also tell which packets were received; ns-3 does so in those without data only.
  static void AddBlocks (Ptr<const Packet> packet, const TcpHeader &header,
                         Ptr<const TcpSocketBase> sender)
  {
    if (packet->GetSize ())
      ConstCast<SocketOfLinux> (DynamicCast<const SocketOfLinux> (sender))
        ->AddOptionSack (const_cast<TcpHeader &> (header));
  }

  /// The room that these blocks take: three at most, beside a time stamp.
  uint32_t GetSizeOfBlocks () const
  {
    uint32_t blocks = m_tcb->m_rxBuffer->GetSackListSize ();
    return blocks ? 4 + 8 * std::min (blocks, 3u) : 0;
  }

  /// Windows have a number of packets: a short one takes the place of a full one.
  uint32_t BytesInFlight () const override
  {
    uint32_t flight = TcpSocketBase::BytesInFlight (), full = m_tcb->m_segmentSize;
    for (TcpTxItem *item : Private (SentList (), *m_txBuffer))
      {
        uint32_t size = item->GetSeqSize ();
        if (size < full && !item->IsSacked () && (!Private (IsLost (), *item) || item->m_retrans))
          flight += full - size;
      }
    return flight;
  }

  uint32_t SendDataPacket (SequenceNumber32 from, uint32_t limit, bool withAck) override
  {
    bool isNew = from >= m_tcb->m_highTxMark;
    int64_t ticks = TickAt (Simulator::Now (), m_tick) - TickAt (m_lastReceived, m_tick);
    m_isAnswering |= !m_lastReceived.IsZero () && ticks < Div (DELAY, m_tick);
    m_atOnce -= withAck && m_delAckCount && m_atOnce;
    limit = std::min (limit, m_tcb->m_segmentSize - GetSizeOfBlocks ());
    m_selectTimer.Cancel ();
    bool isWaiting = m_retxEvent.IsRunning ();
    uint32_t sent = TcpSocketBase::SendDataPacket (from, limit, withAck);
    if (!isWaiting && m_retxEvent.IsRunning ())
      SetTimeout ();
    m_reducedSent += sent > 0;
    if (isNew)
      {
        NoteUse ();
        SetProbeTimer (false);
      }
    else if (IsReducing () && from == m_txBuffer->HeadSequence ())
      SetTimeout ();
    return sent;
  }

  /// Packets are acknowledged one by one at first, also after a pause, and while the receive window
  /// grows, which Linux opens with what arrives. A site that answers at once does not do so.
  void ReceivedData (Ptr<Packet> packet, const TcpHeader &header) override
  {
    SequenceNumber32 start = header.GetSequenceNumber (), end = start + packet->GetSize ();
    SequenceNumber32 expected = m_tcb->m_rxBuffer->NextRxSequence ();
    bool isOld = end <= expected, isNext = start == expected;
    if (isOld || (isNext && (m_lastReceived.IsZero () || Simulator::Now () - m_lastReceived > m_rto)))
      m_atOnce = std::max (m_atOnce, 16u);
    m_isAnswering &= !isOld;
    if (m_selectTimer.IsRunning ()
        && (Simulator::Now () >= m_selectDue || (!isOld && !isNext && IsOutsideTwoBlocks (start, end))))
      {
        m_selectTimer.Cancel ();
        Select ();
      }
    m_isFilling = isNext;
    if (isNext)
      m_lastReceived = Simulator::Now ();
    uint64_t buffer = m_tcb->m_rxBuffer->MaxBufferSize (), most = 2 * buffer * PAYLOAD_OF_MEMORY;
    m_window = m_window ? m_window : buffer;
    if (!isOld && (!isNext || packet->GetSize () >= 128) && m_window < most)
      {
        m_window += 2 * m_tcb->m_segmentSize;
        m_atOnce |= 1;
      }
    uint32_t usual = m_delAckMaxCount;
    if (AcknowledgesAtOnce ())
      m_delAckMaxCount = 1;
    bool isDelayed = m_delAckEvent.IsRunning ();
    TcpSocketBase::ReceivedData (packet, header);
    m_delAckMaxCount = usual;
    if (!isDelayed && m_delAckEvent.IsRunning ())
      {
        m_delAckEvent.Cancel ();
        m_delAckEvent = Simulator::Schedule (InTicks (DELAY), &SocketOfLinux::DelAckTimeout, this);
      }
  }

  /// An acknowledgement that is due soon is sent when one arrives.
  void ReceivedAck (Ptr<Packet> packet, const TcpHeader &header) override
  {
    TcpSocketBase::ReceivedAck (packet, header);
    if (m_delAckEvent.IsRunning () && !packet->GetSize ()
        && Simulator::GetDelayLeft (m_delAckEvent) <= InTicks (DELAY / 4))
      {
        m_delAckEvent.Cancel ();
        m_delAckCount = 0;
        SendEmptyPacket (TcpHeader::ACK);
      }
  }

  void DelAckTimeout () override
  {
    m_isAnswering = false;
    TcpSocketBase::DelAckTimeout ();
  }

  /// Packets with data that may be sent carry the acknowledgement, so none is sent alone. It is sent
  /// alone when it selects packets; from the fourth on for the same hole, several are sent as one.
  void SendEmptyPacket (uint8_t flags) override
  {
    bool isPlain = flags == TcpHeader::ACK && m_state == ESTABLISHED;
    if (isPlain && m_tcb->m_rxBuffer->GetSackListSize ())
      {
        SequenceNumber32 hole = m_tcb->m_rxBuffer->NextRxSequence ();
        if (hole != m_hole)
          m_selections = 0;
        m_hole = hole;
        m_selections += !m_isFilling;
        if (m_selections > 3 && !m_isFilling && !AcknowledgesAtOnce ())
          {
            Time wait = Min (MilliSeconds (1), m_rtt->GetEstimate () / 20);
            if (m_selectTimer.IsRunning ())
              return;
            // Its timer is 0.1 ms late, unless a packet arrives.
            m_selectDue = Simulator::Now () + wait;
            m_selectTimer =
              Simulator::Schedule (wait + MicroSeconds (100), &SocketOfLinux::Select, this);
            return;
          }
      }
    else if (isPlain && SendPendingData (m_connected))
      return;
    m_selectTimer.Cancel ();
    m_atOnce -= m_atOnce > 0;
    TcpSocketBase::SendEmptyPacket (flags);
  }

  /// Timeouts of the same packet change the threshold once only (RFC 5681, section 3.1).
  void ReTxTimeout () override
  {
    uint32_t threshold = m_tcb->m_ssThresh;
    bool isRepeated = m_timeouts++ > 0 && m_tcb->m_congState == TcpSocketState::CA_LOSS;
    m_probeEnd = SequenceNumber32 (0);
    m_isProbing = false;
    m_reorderTimer.Cancel ();
    m_probeTimer.Cancel ();
    TcpSocketBase::ReTxTimeout ();
    if (isRepeated)
      m_tcb->m_ssThresh = threshold;
  }

private:
  static constexpr double PAYLOAD_OF_MEMORY = 162 / 256.; // of full packets in Linux's buffers
  const Time DELAY = MilliSeconds (40);                    // of an acknowledgement

  bool AcknowledgesAtOnce () const { return m_atOnce && !m_isAnswering; }

  /// Whether a packet adds to none of the two latest blocks of selected packets, of which there are two.
  /// Linux sends the acknowledgement that waits before it takes in such a packet.
  bool IsOutsideTwoBlocks (SequenceNumber32 start, SequenceNumber32 end) const
  {
    auto blocks = m_tcb->m_rxBuffer->GetSackList ();
    size_t place = 0;
    for (auto &block : blocks)
      {
        if (start <= block.second && block.first <= end)
          break;
        ++place;
      }
    return place >= 2;
  }

  void Select () { TcpSocketBase::SendEmptyPacket (TcpHeader::ACK); }

  /// What one acknowledgement has brought.
  struct News
  {
    uint32_t segments = 0, lostBefore = 0;
    bool hasLaterDelivery = false, isRetransmissionAcked = false;
    Time firstRtt, lastRtt, firstSelectedRtt, lastSelectedRtt, rtt;
  };

  void NoteDelivery (TcpTxItem *item, SequenceNumber32 end, bool isCumulative)
  {
    Time sent = item->GetLastSent (), rtt = Simulator::Now () - sent;
    uint32_t size = item->GetPacket ()->GetSize ();
    bool isLost = Private (IsLost (), *item), wasSentAgain = item->IsRetrans ();
    m_news.segments += 1;
    m_news.lostBefore -= isLost ? size : 0;
    if (wasSentAgain || isLost)
      m_news.isRetransmissionAcked |= isCumulative;
    else if (isCumulative)
      {
        m_news.lastRtt = rtt;
        m_news.firstRtt = m_news.firstRtt.IsZero () ? rtt : m_news.firstRtt;
      }
    else
      {
        m_news.lastSelectedRtt = rtt;
        m_news.firstSelectedRtt = m_news.firstSelectedRtt.IsZero () ? rtt : m_news.firstSelectedRtt;
      }
    if (wasSentAgain && rtt < m_tcb->m_minRtt)
      return; // its first transmission may have arrived
    m_news.hasLaterDelivery = true;
    m_rackRtt = rtt;
    if (std::make_pair (sent, end) > std::make_pair (m_rackSent, m_rackEnd))
      m_rackSent = sent, m_rackEnd = end;
  }

  /// How long a timer of Linux takes: it never goes off early, and waits for a tick. From 63 ticks on
  /// it waits for a multiple of 8 ticks, and from 504 on for one of 64.
  Time InTicks (Time wait) const
  {
    int64_t ticks = Div (wait + m_tick - NanoSeconds (1), m_tick), grain = 1;
    while (ticks >= 63 * grain)
      grain *= 8;
    Time now = Simulator::Now (), begun = m_tick * Div (now + m_tick / 2, m_tick) - m_tick / 2;
    int64_t tick = TickAt (now, m_tick);
    return begun + m_tick * ((tick + ticks + grain) / grain * grain - tick) - now;
  }

  /// In its own state of recovery, ns-3 also sends again what is not lost, when nothing is unsent
  /// (RFC 6675, NextSeg, rule 3). Linux never does.
  static constexpr auto REDUCING = TcpSocketState::CA_CWR;
  bool IsReducing () const { return m_tcb->m_congState == REDUCING; }

  /// RACK: what was sent before a packet that has arrived is lost, after the time for reordering.
  /// Returns whether a retransmission was lost.
  bool DetectLosses ()
  {
    Time wait = Min (m_tcb->m_minRtt / 4, m_rtt->GetEstimate ());
    if (IsReducing () || m_tcb->m_congState == TcpSocketState::CA_LOSS
        || m_txBuffer->GetSacked () >= m_retxThresh * m_tcb->m_segmentSize)
      wait = Time (0);
    Time longest;
    bool isRetransmissionLost = false;
    for (TcpTxItem *item : Private (SentList (), *m_txBuffer))
      {
        uint32_t size = item->GetPacket ()->GetSize ();
        bool &isLost = Private (IsLost (), *item);
        SequenceNumber32 end = Private (StartOf (), *item) + size;
        if (item->IsSacked () || (isLost && !item->m_retrans)
            || std::make_pair (item->GetLastSent (), end) >= std::make_pair (m_rackSent, m_rackEnd))
          continue;
        Time left = m_rackRtt + wait - (Simulator::Now () - item->GetLastSent ());
        if (left > Time (0))
          {
            longest = Max (longest, left);
            continue;
          }
        if (item->m_retrans)
          {
            item->m_retrans = false;
            Private (RetransmittedOut (), *m_txBuffer) -= size;
            isRetransmissionLost = true;
          }
        if (!isLost)
          {
            isLost = true;
            Private (LostOut (), *m_txBuffer) += size;
          }
      }
    m_reorderTimer.Cancel ();
    if (!longest.IsZero ())
      m_reorderTimer = Simulator::Schedule (InTicks (longest + MilliSeconds (2)),
                                            &SocketOfLinux::EndReordering, this);
    BytesInFlight ();
    return isRetransmissionLost;
  }

  void EndReordering ()
  {
    uint32_t before = BytesInFlight ();
    DetectLosses ();
    if (BytesInFlight () == before)
      return;
    if (!IsReducing ())
      {
        BeginRecovery ();
        Reduce (1, false);
      }
    SendPendingData (m_connected);
  }

  void Enter (TcpSocketState::TcpCongState_t state)
  {
    if (m_tcb->m_congState == state)
      return;
    m_congestionControl->CongestionStateSet (m_tcb, state);
    m_tcb->m_congState = state;
  }

  void ChangeState (const SequenceNumber32 &ack, bool isRetransmissionLost)
  {
    auto state = m_tcb->m_congState.Get ();
    bool isLoss = state == TcpSocketState::CA_LOSS;
    if ((IsReducing () || isLoss) && ack >= m_recover)
      {
        if (IsReducing ())
          m_tcb->m_cWnd = m_tcb->m_ssThresh.Get ();
        m_recoverActive = isLoss = false;
        Enter (TcpSocketState::CA_OPEN);
      }
    if (IsReducing () || (isLoss && !isRetransmissionLost))
      return;
    if (m_txBuffer->GetLost ())
      BeginRecovery ();
    else
      Enter (m_txBuffer->GetSacked () ? TcpSocketState::CA_DISORDER : TcpSocketState::CA_OPEN);
  }

  void BeginRecovery ()
  {
    m_recover = m_tcb->m_highTxMark;
    m_recoverActive = true;
    m_probeEnd = SequenceNumber32 (0);
    m_isProbing = false;
    m_fullWindow = m_tcb->GetCwndInSegments ();
    m_reducedDelivered = m_reducedSent = 0;
    m_tcb->m_ssThresh = m_congestionControl->GetSsThresh (m_tcb, BytesInFlight ());
    Enter (REDUCING);
  }

  /// Proportional rate reduction. All numbers are packets: the share of what was delivered is rounded up
  /// to a whole one.
  void Reduce (uint32_t delivered, bool isRepaired)
  {
    if (!delivered)
      return;
    int64_t size = m_tcb->m_segmentSize;
    int64_t threshold = m_tcb->m_ssThresh / size, flight = (BytesInFlight () + size - 1) / size;
    m_reducedDelivered += delivered;
    int64_t send;
    if (flight > threshold)
      send = (threshold * m_reducedDelivered + m_fullWindow - 1) / m_fullWindow - m_reducedSent;
    else
      {
        send = std::max<int64_t> (m_reducedDelivered - m_reducedSent, delivered);
        send = std::min (send + isRepaired, threshold - flight);
      }
    send = std::max<int64_t> (send, m_reducedSent ? 0 : 1);
    m_tcb->m_cWnd = (flight + send) * size;
  }

  /// Note how much of the window is used; one that is not full does not grow.
  void NoteUse ()
  {
    bool isFull = BytesInFlight () + m_tcb->m_segmentSize > m_tcb->m_cWnd;
    uint32_t out = UnAckDataCount ();
    if (m_txBuffer->HeadSequence () >= m_useEnd || isFull || (!m_isFull && out > m_most))
      {
        m_isFull = isFull;
        m_most = out;
        m_useEnd = m_tcb->m_highTxMark;
      }
  }

  bool IsWindowFull () const
  {
    return m_isFull || (m_tcb->m_cWnd < m_tcb->m_ssThresh && m_tcb->m_cWnd < 2 * m_most);
  }

  /// The probe of the tail takes the place of the timeout. Only what is new sets its timer again: data
  /// that are sent, or an acknowledgement of more (`hasAdvanced`).
  void SetProbeTimer (bool hasAdvanced)
  {
    m_probeTimer.Cancel ();
    if (!UnAckDataCount ())
      return;
    Time left = m_rto - (hasAdvanced ? Time (0) : GetAgeOfHead ());
    if (m_tcb->m_congState != TcpSocketState::CA_OPEN || m_rtt->GetEstimate ().IsZero ())
      {
        if (!m_retxEvent.IsRunning ())
          SetTimeout (Max (left, m_tick));
        return;
      }
    Time wait = m_rtt->GetEstimate () * 2;
    wait += Private (SentList (), *m_txBuffer).size () == 1 ? MilliSeconds (200) : MilliSeconds (2);
    if (left > Time (0))
      wait = Min (wait, left);
    m_retxEvent.Cancel ();
    m_probeTimer = Simulator::Schedule (InTicks (wait), &SocketOfLinux::Probe, this);
  }

  /// How long ago the first packet that was not acknowledged was sent last.
  Time GetAgeOfHead () const
  {
    auto &sent = Private (SentList (), *m_txBuffer);
    return sent.empty () ? Time (0) : Simulator::Now () - sent.front ()->GetLastSent ();
  }

  /// The probe of the tail: a new packet, or the last one again.
  void Probe ()
  {
    if (!m_isProbing)
      {
        SequenceNumber32 next = m_tcb->m_highTxMark;
        uint32_t unsent = m_txBuffer->SizeFromSequence (next), size = m_tcb->m_segmentSize;
        m_isProbeRepeated = !unsent || UnAckDataCount () + std::min (unsent, size) > m_rWnd;
        m_isProbing = true;
        if (m_isProbeRepeated)
          {
            TcpTxItem *last = Private (SentList (), *m_txBuffer).back ();
            SendDataPacket (Private (StartOf (), *last), last->GetPacket ()->GetSize (), m_connected);
          }
        else
          SendDataPacket (next, std::min (unsent, size), m_connected);
        m_tcb->m_nextTxSequence = m_tcb->m_highTxMark.Get ();
        m_probeEnd = m_tcb->m_highTxMark;
        m_probeTimer.Cancel ();
      }
    SetTimeout ();
  }

  void SetTimeout () { SetTimeout (m_rto); }

  void SetTimeout (Time wait)
  {
    m_probeTimer.Cancel ();
    m_retxEvent.Cancel ();
    m_retxEvent = Simulator::Schedule (InTicks (wait), &SocketOfLinux::ReTxTimeout, this);
  }

  /// When more than a repeated packet is acknowledged, it had repaired a loss.
  void FinishProbe (const SequenceNumber32 &ack, bool hasAdvanced, bool isNewlySelected)
  {
    if (!m_isProbing || ack < m_probeEnd)
      return;
    if (!m_isProbeRepeated)
      m_isProbing = false;
    else if (ack > m_probeEnd)
      {
        m_isProbing = false;
        m_tcb->m_ssThresh = m_congestionControl->GetSsThresh (m_tcb, BytesInFlight ());
        m_tcb->m_cWnd = m_tcb->m_ssThresh.Get ();
      }
    else if (!hasAdvanced && !isNewlySelected)
      m_isProbing = false; // both have arrived
  }

  News m_news;
  Time m_rackSent, m_rackRtt, m_lastReceived, m_selectDue, m_tick;
  SequenceNumber32 m_rackEnd{0}, m_useEnd{0}, m_probeEnd{0}, m_hole{0};
  EventId m_reorderTimer, m_probeTimer, m_selectTimer;
  int64_t m_fullWindow = 1, m_reducedDelivered = 0, m_reducedSent = 0;
  uint32_t m_most = 0, m_timeouts = 0, m_atOnce = 0, m_selections = 0;
  uint64_t m_window = 0; // that the receiver offers: a caller first offers its buffer, the other site less
  bool m_isAnswering = false, m_isFilling = false, m_isFull = false, m_isProbing = false;
  bool m_isProbeRepeated = false;
};
NS_OBJECT_ENSURE_REGISTERED (SocketOfLinux);

} // namespace ns3
