// Packets of an overlay's messages in ns-3, with ns-3's own links, IP and TCP.
//
// The description on the standard input has a line for each thing. Nodes, connections, messages and
// moments are numbers from 0 on, each in its own order; a message or a moment is a *step*.
//
//   sockets ns3|linux                 whose senders the next connections have (see ns3_own_tcp.h and
//                                     ns3_linux_tcp.h)
//   set ATTRIBUTE VALUE               an attribute of ns-3, such as ns3::TcpSocket::InitialCwnd 10
//   node NAME                         the next node
//   link A B  DELAY_NS RATE QUEUE  DELAY_NS RATE QUEUE
//                                     nanoseconds, bit/s and bytes, from A to B and back
//   losses A B NUMBER ..              which packets from A to B are lost, counted from 0 on
//   connection N A .. B N B .. A      a TCP connection from A to B: the N nodes of each way
//   beats A BYTES INTERVAL_NS START_NS
//                                     A sends messages on its connections again and again, unless
//                                     data wait to be sent there
//   moment DELAY_NS AFTER ..          a time after the last of these steps has ended
//   message CONNECTION BACK BYTES AFTER ..
//                                     from A to B, or from B to A if BACK is 1; it is sent in full
//                                     when these steps have ended, and ends when it has arrived
//   down A B DELAY_NS LENGTH_NS STEP  packets from A to B vanish for so long, after a step
//   datagrams N A .. B BYTES INTERVAL_NS START_NS STOP_NS    IP packets of this size over UDP
//   run SEED STOP_NS
//
// The answer has a line `ended STEP NS` for each step that has ended, and `link A B BYTES PACKETS
// OVERFLOWS LOSSES` for each direction of a link.

#include "ns3_linux_tcp.h"
#include "ns3_own_tcp.h"

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <deque>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

using namespace ns3;

struct Step;
std::vector<Step> g_steps;
void Finish (int id);

/// One direction of a connection: what it sends, in this order.
struct Way
{
  Ptr<Socket> socket;
  std::deque<uint64_t> writes;               // what is left of each message
  std::deque<std::pair<uint64_t, int>> ends; // the number of the last byte, and the message
  uint64_t asked = 0, arrived = 0;
  int from = 0;
  EventId next;

  bool IsSending () const
  {
    auto linux = DynamicCast<SocketOfLinux> (socket);
    auto own = DynamicCast<SocketOfNs3> (socket);
    return !writes.empty () || (linux && linux->HasUnsent ()) || (own && own->HasUnsent ());
  }

  void Write (uint64_t bytes)
  {
    asked += bytes;
    writes.push_back (bytes);
    Push ();
  }

  /// Write one message after the other: the socket sends what it may of each, so its last packet may
  /// be a short one.
  void Push ()
  {
    if (!socket || next.IsRunning () || writes.empty ())
      return;
    uint64_t &left = writes.front ();
    while (left && socket->GetTxAvailable ())
      {
        uint64_t wanted = std::min<uint64_t> (left, socket->GetTxAvailable ());
        int sent = socket->Send (Create<Packet> (std::min<uint64_t> (wanted, 1 << 16)));
        if (sent <= 0)
          return;
        left -= sent;
      }
    if (!left)
      {
        writes.pop_front ();
        next = Simulator::Schedule (NanoSeconds (2), &Way::Push, this);
      }
  }

  void Arrive (uint64_t bytes)
  {
    arrived += bytes;
    while (!ends.empty () && ends.front ().first <= arrived)
      {
        int id = ends.front ().second;
        ends.pop_front ();
        Finish (id);
      }
  }
};

struct Connection
{
  Way ways[2];
};
std::deque<Connection> g_connections; // they stay where they are
bool g_linux = false;

/// Let a node send a message on each of its connections, which no step waits for, and again and again.
void
Beat (int node, uint64_t bytes, Time interval)
{
  for (auto &connection : g_connections)
    for (Way &way : connection.ways)
      if (way.from == node && !way.IsSending ())
        way.Write (bytes);
  Simulator::Schedule (interval, &Beat, node, bytes, interval);
}

struct Step
{
  int connection = -1, back = 0, waiting = 0;
  int64_t delay = 0; // of a moment, in nanoseconds
  uint64_t bytes = 0;
  std::vector<int> next;
  std::vector<std::function<void ()>> actions;

  void Begin (int id)
  {
    if (connection < 0)
      {
        Simulator::Schedule (NanoSeconds (delay), &Finish, id);
        return;
      }
    Way &way = g_connections[connection].ways[back];
    way.ends.push_back ({way.asked + bytes, id});
    way.Write (bytes);
  }
};

size_t g_left; // steps that have not ended

void
Finish (int id)
{
  std::cout << "ended " << id << " " << Simulator::Now ().GetNanoSeconds () << "\n";
  for (int next : g_steps[id].next)
    if (--g_steps[next].waiting == 0)
      g_steps[next].Begin (next);
  for (auto &act : g_steps[id].actions)
    act ();
  if (--g_left == 0)
    Simulator::Stop ();
}

void
AddStep (Step step, std::istream &words)
{
  int id = g_steps.size ();
  for (int after; words >> after; ++step.waiting)
    g_steps[after].next.push_back (id);
  g_steps.push_back (step);
}

/// Packets have a header of 2 bytes in ns-3 (PPP), and one of 14 in Trunkline (Ethernet).
const uint32_t HEADER = 12;

/// A queue in bytes that also counts what is left of the packet which is being sent. ns-3 takes that
/// packet out of its queue, so its queues hold one packet more.
class LinkQueue : public DropTailQueue<Packet>
{
public:
  static TypeId GetTypeId ()
  {
    static TypeId id =
      TypeId ("ns3::LinkQueue")
        .SetParent<DropTailQueue<Packet>> ()
        .AddAttribute ("PacketTime", "how long the sender's processor takes for a packet of a burst",
                       TimeValue (Time (0)), MakeTimeAccessor (&LinkQueue::m_packetTime),
                       MakeTimeChecker ());
    return id;
  }

  LinkQueue (uint64_t rate, double limit) : m_bytesPerNs (rate / 8e9), m_limit (limit) {}

  bool Enqueue (Ptr<Packet> packet) override
  {
    int64_t now = std::max (Simulator::Now ().GetNanoSeconds (),
                            m_since + m_packetTime.GetNanoSeconds ());
    m_held = std::max (0.0, m_held - (now - m_since) * m_bytesPerNs);
    m_since = now;
    uint32_t size = packet->GetSize () + HEADER;
    if (m_held + size > m_limit)
      {
        DropBeforeEnqueue (packet);
        return false;
      }
    m_held += size;
    return DropTailQueue<Packet>::Enqueue (packet);
  }

private:
  Time m_packetTime;
  double m_bytesPerNs, m_limit, m_held = 0;
  int64_t m_since = 0;
};
NS_OBJECT_ENSURE_REGISTERED (LinkQueue);

/// A wire whose directions have delays of their own, in nanoseconds.
class LinkChannel : public PointToPointChannel
{
public:
  int64_t delays[2] = {0, 0};

  bool TransmitStart (Ptr<const Packet> packet, Ptr<PointToPointNetDevice> from, Time time) override
  {
    int way = from == GetSource (0) ? 0 : 1;
    Ptr<PointToPointNetDevice> to = GetDestination (way);
    Simulator::ScheduleWithContext (to->GetNode ()->GetId (), time + NanoSeconds (delays[way]),
                                    &PointToPointNetDevice::Receive, to, packet->Copy ());
    return true;
  }
};

/// A direction of a link: its device at the source, and the losses at its destination.
struct Half
{
  Ptr<PointToPointNetDevice> from, to;
  Ptr<ReceiveListErrorModel> losses;
  uint64_t bytes = 0, packets = 0, overflows = 0, lost = 0;
};
std::map<std::pair<int, int>, Half> g_links;
NodeContainer g_nodes;

Ipv4Address
AddressOf (Ptr<NetDevice> device)
{
  Ptr<Ipv4> ip = device->GetNode ()->GetObject<Ipv4> ();
  return ip->GetAddress (ip->GetInterfaceForDevice (device), 0).GetLocal ();
}

void
AddLink (int a, int b, std::istream &words)
{
  auto channel = CreateObject<LinkChannel> ();
  NetDeviceContainer devices;
  for (int node : {a, b})
    {
      auto device = CreateObject<PointToPointNetDevice> ();
      device->SetAddress (Mac48Address::Allocate ());
      g_nodes.Get (node)->AddDevice (device);
      device->Attach (channel);
      devices.Add (device);
    }
  for (int end : {0, 1})
    {
      auto from = DynamicCast<PointToPointNetDevice> (devices.Get (end));
      auto to = DynamicCast<PointToPointNetDevice> (devices.Get (1 - end));
      Half &half = g_links[end ? std::make_pair (b, a) : std::make_pair (a, b)];
      uint64_t rate;
      double queue;
      words >> channel->delays[end] >> rate >> queue;
      Time gap = NanoSeconds (std::llround (HEADER * 8e9 / rate));
      channel->delays[end] += gap.GetNanoSeconds ();
      from->SetDataRate (DataRate (rate));
      from->SetInterframeGap (gap);
      from->SetQueue (CreateObject<LinkQueue> (rate, queue));
      from->GetQueue ()->SetMaxSize (QueueSize ("4000000000B")); // LinkQueue has its own limit
      half.from = from, half.to = to;
      half.losses = CreateObject<ReceiveListErrorModel> ();
      to->SetReceiveErrorModel (half.losses);
      from->TraceConnectWithoutContext ("PhyTxEnd", Callback<void, Ptr<const Packet>> (
        [&half] (Ptr<const Packet> packet) { half.packets++, half.bytes += packet->GetSize (); }));
      from->TraceConnectWithoutContext ("MacTxDrop", Callback<void, Ptr<const Packet>> (
        [&half] (Ptr<const Packet>) { half.overflows++; }));
      to->TraceConnectWithoutContext ("PhyRxDrop", Callback<void, Ptr<const Packet>> (
        [&half] (Ptr<const Packet>) { half.lost++; }));
    }
  static Ipv4AddressHelper addresses ("10.0.0.0", "255.255.255.252");
  addresses.Assign (devices);
  addresses.NewNetwork ();
}

std::vector<int>
ReadPath (std::istream &words)
{
  int count;
  words >> count;
  std::vector<int> path (count);
  for (int &node : path)
    words >> node;
  return path;
}

/// Route packets for the last node of a path along it; returns the address that they have.
Ipv4Address
Route (const std::vector<int> &path)
{
  size_t last = path.size () - 1;
  Ipv4Address address = AddressOf (g_links.at ({path[last - 1], path[last]}).to);
  for (size_t hop = 0; hop + 1 < last; ++hop)
    {
      Half &half = g_links.at ({path[hop], path[hop + 1]});
      Ptr<Ipv4> ip = half.from->GetNode ()->GetObject<Ipv4> ();
      Ptr<Ipv4StaticRouting> table = Ipv4StaticRoutingHelper ().GetStaticRouting (ip);
      table->AddHostRouteTo (address, AddressOf (half.to), ip->GetInterfaceForDevice (half.from));
    }
  return address;
}

void
Attach (int number, int back, Ptr<Socket> socket)
{
  Way &way = g_connections[number].ways[back];
  way.socket = socket;
  socket->SetSendCallback ([number, back] (Ptr<Socket>, uint32_t) {
    g_connections[number].ways[back].Push ();
  });
  socket->SetRecvCallback ([number, back] (Ptr<Socket> from) {
    while (Ptr<Packet> packet = from->Recv ())
      {
        if (!packet->GetSize ())
          break;
        // What is to be acknowledged at once is so before the site has read it and answers.
        Way &way = g_connections[number].ways[1 - back];
        Simulator::ScheduleNow (&Way::Arrive, &way, packet->GetSize ());
      }
  });
  way.Push ();
}

/// A socket of ns-3, or one whose sender is like that of Linux.
Ptr<Socket>
MakeSocket (Ptr<Node> node)
{
  TypeIdValue control, recovery;
  node->GetObject<TcpL4Protocol> ()->GetAttribute ("SocketType", control);
  node->GetObject<TcpL4Protocol> ()->GetAttribute ("RecoveryType", recovery);
  return g_linux ? SocketOfLinux::Make (node, control.Get ())
                 : SocketOfNs3::Make (node, control.Get (), recovery.Get ());
}

void
Connect (int number, std::vector<int> there, std::vector<int> back)
{
  uint16_t port = 10000 + number;
  Ipv4Address to = Route (there), from = Route (back);
  Ptr<Socket> listener = MakeSocket (g_nodes.Get (there.back ()));
  listener->Bind (InetSocketAddress (to, port));
  listener->Listen ();
  listener->SetAcceptCallback (
    MakeNullCallback<bool, Ptr<Socket>, const Address &> (),
    [number] (Ptr<Socket> accepted, const Address &) { Attach (number, 1, accepted); });
  Ptr<Socket> caller = MakeSocket (g_nodes.Get (there.front ()));
  caller->Bind (InetSocketAddress (from, port));
  caller->Connect (InetSocketAddress (to, port));
  Attach (number, 0, caller);
}

void
SendDatagrams (std::vector<int> path, std::istream &words)
{
  static uint16_t port = 5000;
  uint32_t bytes;
  int64_t interval, start, stop;
  words >> bytes >> interval >> start >> stop;
  Ipv4Address to = Route (path);
  Ptr<Socket> sink = Socket::CreateSocket (g_nodes.Get (path.back ()), UdpSocketFactory::GetTypeId ());
  sink->Bind (InetSocketAddress (Ipv4Address::GetAny (), ++port));
  sink->SetRecvCallback ([] (Ptr<Socket> from) { while (from->Recv ()); });
  Ptr<Socket> source =
    Socket::CreateSocket (g_nodes.Get (path.front ()), UdpSocketFactory::GetTypeId ());
  source->Connect (InetSocketAddress (to, port));
  auto send = std::make_shared<std::function<void ()>> ();
  *send = [=] () {
    source->Send (Create<Packet> (bytes - 28)); // the headers of IP and UDP
    if (Simulator::Now ().GetNanoSeconds () + interval < stop)
      Simulator::Schedule (NanoSeconds (interval), [send] () { (*send) (); });
  };
  Simulator::Schedule (NanoSeconds (start), [send] () { (*send) (); });
}

/// Let packets from A to B vanish for a while.
void
CutAfter (int a, int b, std::istream &words)
{
  Half *half = &g_links.at ({a, b});
  int64_t delay, length;
  int step;
  words >> delay >> length >> step;
  auto all = CreateObject<RateErrorModel> ();
  all->SetUnit (RateErrorModel::ERROR_UNIT_PACKET);
  all->SetRate (1.0);
  g_steps[step].actions.push_back ([=] () {
    Simulator::Schedule (NanoSeconds (delay), [=] () { half->to->SetReceiveErrorModel (all); });
    Simulator::Schedule (NanoSeconds (delay + length),
                         [=] () { half->to->SetReceiveErrorModel (half->losses); });
  });
}

void
Report ()
{
  for (auto &[ends, half] : g_links)
    std::cout << "link " << ends.first << " " << ends.second << " " << half.bytes << " "
              << half.packets << " " << half.overflows << " " << half.lost << "\n";
}

void
Run (std::istream &words)
{
  int64_t seed, stop;
  words >> seed >> stop;
  RngSeedManager::SetRun (seed);
  g_left = g_steps.size ();
  for (size_t id = 0; id < g_steps.size (); ++id)
    if (g_steps[id].waiting == 0)
      g_steps[id].Begin (id);
  Simulator::Stop (NanoSeconds (stop));
  Simulator::Run ();
  Report ();
  Simulator::Destroy ();
}

int
main ()
{
  for (std::string line; std::getline (std::cin, line);)
    {
      std::istringstream words (line);
      std::string what, name, value;
      words >> what;
      int a = 0, b = 0;
      Step step;
      if (what == "sockets" && words >> name)
        g_linux = name == "linux";
      else if (what == "set")
        {
          words >> name >> value;
          Config::SetDefault (name, StringValue (value));
        }
      else if (what == "node")
        {
          Ptr<Node> node = CreateObject<Node> ();
          g_nodes.Add (node);
          InternetStackHelper ().Install (node);
        }
      else if (what == "link" && words >> a >> b)
        AddLink (a, b, words);
      else if (what == "losses" && words >> a >> b)
        g_links.at ({a, b}).losses->SetList (
          {std::istream_iterator<uint32_t> (words), std::istream_iterator<uint32_t> ()});
      else if (what == "connection")
        {
          std::vector<int> there = ReadPath (words), back = ReadPath (words);
          g_connections.emplace_back ();
          g_connections.back ().ways[0].from = there.front ();
          g_connections.back ().ways[1].from = back.front ();
          Connect (g_connections.size () - 1, there, back);
        }
      else if (what == "beats")
        {
          uint64_t bytes;
          int64_t interval, start;
          words >> a >> bytes >> interval >> start;
          Simulator::Schedule (NanoSeconds (start), &Beat, a, bytes, NanoSeconds (interval));
        }
      else if (what == "moment" && words >> step.delay)
        AddStep (step, words);
      else if (what == "message" && words >> step.connection >> step.back >> step.bytes)
        AddStep (step, words);
      else if (what == "down" && words >> a >> b)
        CutAfter (a, b, words);
      else if (what == "datagrams")
        {
          std::vector<int> path = ReadPath (words);
          SendDatagrams (path, words);
        }
      else if (what == "run")
        Run (words);
      else
        {
          std::cerr << "cannot read: " << line << "\n";
          return 1;
        }
    }
  return 0;
}
